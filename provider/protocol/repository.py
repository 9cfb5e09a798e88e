"""From raw arguments to the finished answer in one blocking call: the provider without HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy.orm import Session

from oai.database import Database
from oai.datestamps import utc_now
from oai.sections import ProviderSettings
from oai.signing import UNKNOWN_SECONDS, KeyRing
from oai.vocabulary import LIST_VERBS, ErrorCode, Verb
from provider.holdings.mark import begin_at_mark
from provider.protocol import answers
from provider.protocol.archive import ArchiveCatalogue
from provider.protocol.catalogue import Catalogue
from provider.protocol.exchange import Exchange, ListPosition
from provider.protocol.formats import offered_formats
from provider.protocol.formats.format import Site
from provider.protocol.replicas import Replicas
from provider.protocol.requests import Pairs, RefusedRequestError, Request, check_request
from provider.protocol.tokens import PURPOSE, Tokens
from provider.protocol.verbs import HANDLERS

_LONGEST_CACHED = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class OaiAnswer:
    """A finished answer, with its facts for statistics."""

    body: bytes
    """XML in UTF-8."""
    response_date: datetime
    """UTC."""
    cached_seconds: int = 0
    """How long caches may keep it; 0 unless the list's date range is closed."""
    verb: Verb | None = None
    """None after badVerb."""
    errors: tuple[ErrorCode, ...] = ()
    """The codes of all errors in the answer."""
    progress: ListPosition | None = None
    """For lists that are answered with elements."""
    following: str | None = None
    """The token of a list's next page."""


@dataclass(frozen=True, kw_only=True)
class Repository:
    """Holdings served over OAI-PMH. Thread-safe; each answer uses one database connection."""

    site: Site
    database: Database
    """The primary."""
    catalogue: Catalogue
    replicas: Replicas | None = None
    """What lists are read from; None: the primary."""
    token_purpose: str = PURPOSE
    """Purpose of the tokens' signing key; tokens of another purpose are refused."""

    def answer(self, pairs: Pairs) -> OaiAnswer:
        """Answer a request; errors in the request are reported in the answer.

        Lists are read from a replica that can answer, if there is one. Raises only the database's errors, if
        it cannot be reached or takes too long, and MarkBehindError if the list's end is not published yet.
        """
        try:
            request = check_request(pairs, self.catalogue.prefixes)
        except RefusedRequestError as refusal:
            # Without a database, so that wrong requests cost little; the date promises nothing about records.
            return self._refused(refusal, utc_now())
        tokens = self._tokens(request.arguments.get("resumptionToken"))
        if self.replicas is not None and request.verb in LIST_VERBS:
            answer = self.replicas.answer(
                lambda session, mark: self._answer(session, mark, request, tokens, is_primary=False)
            )
            if answer is not None:
                return answer
        with self.database.reading() as session:
            mark = begin_at_mark(session, at_least=request.until)
            return self._answer(session, mark, request, tokens, is_primary=True)

    def _answer(
        self, session: Session, mark: datetime, request: Request, tokens: Tokens, *, is_primary: bool
    ) -> OaiAnswer:
        exchange = Exchange(
            session=session,
            catalogue=self.catalogue,
            site=self.site,
            mark=mark,
            is_primary=is_primary,
            tokens=tokens,
            request=request,
        )
        try:
            content = HANDLERS[request.verb](exchange)
        except RefusedRequestError as refusal:
            return self._refused(refusal, mark)
        return OaiAnswer(
            body=self._envelope(mark, request.arguments, content.xml),
            response_date=mark,
            cached_seconds=self._cached_seconds(request, mark),
            verb=request.verb,
            progress=content.progress,
            following=content.following,
        )

    @cached_property
    def _key_ring(self) -> KeyRing:
        return KeyRing(self.database, self.token_purpose)

    def _tokens(self, token: str | None) -> Tokens:
        """Return the keys that sign and verify, among them that of the token if this repository issued it."""
        tokens = Tokens(self._key_ring.keys(), self._lifetime)
        if token is None or tokens.is_signed(token):
            return tokens
        return Tokens(self._key_ring.keys(seconds=UNKNOWN_SECONDS), self._lifetime)

    @property
    def _lifetime(self) -> timedelta:
        return timedelta(hours=self.site.settings.token_hours)

    def _refused(self, refusal: RefusedRequestError, response_date: datetime) -> OaiAnswer:
        return OaiAnswer(
            body=self._envelope(response_date, refusal.arguments, answers.errors(refusal.errors)),
            response_date=response_date,
            verb=refusal.verb,
            errors=tuple(error.code for error in refusal.errors),
        )

    def _envelope(self, response_date: datetime, arguments: Mapping[str, str], content: str) -> bytes:
        return answers.envelope(response_date, self.site.base_url, arguments, content)

    def _cached_seconds(self, request: Request, mark: datetime) -> int:
        """Return the cache time: a cached page of a closed range only lacks documents that reappear later."""
        closed = "resumptionToken" in request.arguments or (
            request.until is not None and request.until < mark
        )
        # A cached page contains a token, which must remain valid for a while.
        longest = min(_LONGEST_CACHED, self._lifetime / 2)
        return int(longest.total_seconds()) if closed else 0


def make_repository(
    settings: ProviderSettings, database: Database, base_url: str, replicas: Replicas | None = None
) -> Repository:
    """Return the archive's repository with the formats from the settings; does not access the database yet.

    Raises SettingsError if the settings name an unknown format.
    """
    site = Site(base_url=base_url, settings=settings)
    catalogue = ArchiveCatalogue(site=site, prefixes=offered_formats(settings.formats))
    return Repository(site=site, database=database, replicas=replicas, catalogue=catalogue)
