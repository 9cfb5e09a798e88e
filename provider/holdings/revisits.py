"""Where the payload of a revisit is: what its record names, and what its digest leads to (WARC 1.1, 6.7).

The record names the original by WARC-Refers-To-Target-URI and WARC-Refers-To-Date, which is followed first.
Records without these fields, and those of which the archive lacks the original, lead to captures with the
same URL key and digest. The digest of an empty body leads nowhere: revisits after "not modified" have it,
whatever the original contains.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, func
from sqlalchemy.orm import Session

from oai.digests import is_of_nothing, same_digest, written_forms
from provider.holdings.selection import same_url
from provider.models import Document
from provider.reading.archived_record import Description
from provider.reading.captures import NOT_MODIFIED

MOST_CANDIDATES: Final = 5
"""Captures that are considered for one place where an original may be."""


@dataclass(frozen=True, kw_only=True)
class Revisit:
    """A capture that only records that the content was unchanged."""

    url: str
    archived: datetime
    digest: str | None
    description: Description
    """The facts in its record."""

    @property
    def is_not_modified(self) -> bool:
        """Whether the server confirmed an earlier capture without sending content."""
        return self.description.http_status == NOT_MODIFIED or "not-modified" in (
            self.description.profile or ""
        )

    @property
    def has_answer(self) -> bool:
        """Whether its HTTP header is that of the response whose content was unchanged.

        The header of a response that was not modified is that of the earlier capture (RFC 9110, 15.4.5).
        """
        return self.description.http_status is not None and not self.is_not_modified

    @property
    def is_empty(self) -> bool:
        """Whether the content that was compared is empty, so that the record itself is complete.

        A record that says neither what was compared nor what the server answered is not trusted in this.
        """
        has_reason = self.description.profile is not None or self.description.http_status is not None
        return is_of_nothing(self.digest) and has_reason and not self.is_not_modified

    @property
    def names_time(self) -> bool:
        """Whether its record states the time of the original, without which `named` finds no place."""
        return _moment(self.description.refers_to_date) is not None

    def searches(self, session: Session) -> Iterator["Search"]:
        """Yield the places where the original may be, the most certain first."""
        named = self.named(session)
        if named is not None:
            yield named
        if self.digest is None or is_of_nothing(self.digest):
            return
        moment = named.moment if named else self.archived
        same = func.lower(Document.digest).in_(written_forms(self.digest))
        for url in filter(None, dict.fromkeys((_url(self.description.refers_to_url), _url(self.url)))):
            yield Search(condition=and_(same_url(session, url), same), moment=moment)

    def named(self, session: Session) -> "Search | None":
        """Return the place that the record names; None if it names no time."""
        moment = _moment(self.description.refers_to_date)
        if moment is None:
            return None
        url = _url(self.description.refers_to_url) or _url(self.url)
        # Crawlers that look originals up in a CDX index know their times to the second only. These are bounds
        # for the index; the upper one is within the second, because the last valid time has no next second.
        during = Document.archived.between(moment.replace(microsecond=0), moment.replace(microsecond=999_999))
        return Search(condition=and_(same_url(session, url), during), moment=moment)

    def has_digest(self, digest: str | None) -> bool | None:
        """Return whether the content has this digest; None if it cannot be compared."""
        if is_of_nothing(self.digest) and not self.is_empty:
            return None
        return same_digest(self.digest, digest)

    def has_length(self, description: Description) -> bool:
        """Return whether a record does not state another length of the content.

        The length is that in the HTTP headers, because a record without content has no other.
        """
        lengths = [
            one.http_fields.get("content-length", "").strip() for one in (self.description, description)
        ]
        return self.is_not_modified or not all(lengths) or lengths[0] == lengths[1]


@dataclass(frozen=True, kw_only=True)
class Search:
    """A place where the original of a revisit may be."""

    condition: ColumnElement[bool]
    moment: datetime
    """Captures closest to this time come first."""


def _url(text: str | None) -> str:
    """Return a URL of a record without what some crawlers put around it."""
    return (text or "").strip(" <>").replace(" ", "%20")


def _moment(date: str | None) -> datetime | None:
    """Parse a WARC date; None if the record has no valid one."""
    try:
        moment = datetime.fromisoformat(date or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
