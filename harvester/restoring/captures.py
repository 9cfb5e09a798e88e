"""Captures as listed by a Zatva provider in the metadata format `webarchive`."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from harvester.client import Record

PREFIX: Final = "webarchive"
NAMESPACE: Final = "urn:zatva:webarchive:1"

_IDENTIFIER: Final = re.compile(r"oai:[^:]+:([0-9a-f]{32})")
_CAPTURE: Final = f"{{{NAMESPACE}}}capture"
_SMALLEST_ERROR: Final = 400
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class UnreadableRecordError(Exception):
    """A record that does not come from a Zatva provider; the message says what is wrong with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """The content of a URL at a moment."""

    key: str
    """32 hexadecimal digits, by which the provider delivers the document."""
    identifier: str
    url: str
    captured: datetime
    """UTC."""
    mime_type: str
    """Without parameters, in lower case; empty if the archive does not know it."""
    status: int | None
    digest: str
    """Algorithm, colon, value; empty if the archive has none."""
    length: int | None
    """Size of the content in bytes."""
    record_type: str
    """The WARC record type."""

    @property
    def is_error(self) -> bool:
        """Return whether the site answered with an error."""
        return self.status is not None and self.status >= _SMALLEST_ERROR

    @property
    def is_redirect(self) -> bool:
        """Return whether the site answered with a redirect."""
        return self.status in _REDIRECTS


def key_of(identifier: str) -> str:
    """Return the key in an identifier of a Zatva provider. Raises UnreadableRecordError."""
    found = _IDENTIFIER.fullmatch(identifier)
    if found is None:
        raise UnreadableRecordError(f"the identifier {identifier!r} was not issued by a Zatva provider")
    return found[1]


def read_capture(record: Record) -> Capture:
    """Return the capture in a record that is not deleted. Raises UnreadableRecordError."""
    key = key_of(record.header.identifier)
    metadata = record.metadata
    if metadata is None or metadata.tag != _CAPTURE:
        raise UnreadableRecordError(f"record {record.header.identifier!r} has no capture in {NAMESPACE}")
    fields = {
        name: metadata.findtext(f"{{{NAMESPACE}}}{name}") or ""
        for name in ("url", "captured", "mimeType", "httpStatus", "digest", "length", "recordType")
    }
    if not fields["url"]:
        raise UnreadableRecordError(f"record {record.header.identifier!r} has no URL")
    return Capture(
        key=key,
        identifier=record.header.identifier,
        url=fields["url"],
        captured=_moment(fields["captured"], record.header.identifier),
        mime_type=fields["mimeType"].partition(";")[0].strip().lower(),
        status=_number(fields["httpStatus"]),
        digest=fields["digest"].strip(),
        length=_number(fields["length"]),
        record_type=fields["recordType"],
    )


def _moment(text: str, identifier: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UnreadableRecordError(
            f"record {identifier!r} has the capture time {text!r}, which is not valid"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None  # noqa: PLR2004 digits


class CaptureChoice:
    """The best capture of each URL among those seen so far.

    A capture of an error page counts only while its URL has no other capture.
    """

    def __init__(self, at: datetime | None = None) -> None:
        self._at = at
        self._chosen: dict[str, Capture] = {}
        self.seen = 0
        """The number of captures seen."""

    def see(self, capture: Capture) -> None:
        """Choose the capture if it is better than the present one."""
        self.seen += 1
        other = self._chosen.get(capture.url)
        if other is None or self._rank(capture) > self._rank(other):
            self._chosen[capture.url] = capture

    def chosen(self) -> list[Capture]:
        """Return the captures ordered by URL."""
        return [self._chosen[url] for url in sorted(self._chosen)]

    def _rank(self, capture: Capture) -> tuple[bool, float, datetime, str]:
        distance = 0.0 if self._at is None else -abs((capture.captured - self._at).total_seconds())
        return not capture.is_error, distance, capture.captured, capture.key
