"""From raw arguments to the finished answer, in one blocking call: the provider without HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from oai.database import Database
from oai.datestamps import utc_now
from oai.settings import ProviderSettings
from oai.signing import signing_key
from provider import answers
from provider.exchange import Exchange
from provider.formats import FORMATS
from provider.requests import Pairs, RefusedRequestError, Request, check_request
from provider.tokens import PURPOSE, Tokens
from provider.verbs import HANDLERS

_LONGEST_CACHED = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A finished answer."""

    body: bytes
    """XML in UTF-8."""
    cached_seconds: int = 0
    """How long caches may keep it; none unless the list's window is closed."""


@dataclass(frozen=True)
class Repository:
    """An archive as OAI-PMH shows it. Thread-safe; each answer takes one database connection."""

    settings: ProviderSettings
    database: Database
    base_url: str

    def answer(self, pairs: Pairs) -> Answer:
        """Answer a request; whatever is wrong with it is told in the answer.

        Raises only what the database raises when it cannot be reached or takes too long.
        """
        moment = utc_now()
        try:
            request = check_request(pairs, FORMATS)
            tokens = self._tokens
            with self.database.session() as session:
                moment = _begin(session)
                content = self._content(session, request, moment, tokens)
        except RefusedRequestError as refusal:
            content = answers.errors(refusal.errors)
            return Answer(body=self._envelope(moment, refusal.arguments, content))
        body = self._envelope(moment, request.arguments, content)
        return Answer(body=body, cached_seconds=self._cached_seconds(request, moment))

    @cached_property
    def _tokens(self) -> Tokens:
        with self.database.session() as session:
            return Tokens(signing_key(session, PURPOSE), timedelta(hours=self.settings.token_hours))

    def _content(self, session: Session, request: Request, moment: datetime, tokens: Tokens) -> str:
        exchange = Exchange(
            session=session,
            settings=self.settings,
            base_url=self.base_url,
            moment=moment,
            tokens=tokens,
            request=request,
        )
        return HANDLERS[request.verb](exchange)

    def _envelope(self, moment: datetime, arguments: Mapping[str, str], content: str) -> bytes:
        return answers.envelope(moment, self.base_url, arguments, content)

    def _cached_seconds(self, request: Request, moment: datetime) -> int:
        """A page of a window that is closed loses documents at most, and they come again further on."""
        closed = "resumptionToken" in request.arguments or (
            request.until is not None and request.until < moment
        )
        # A cached page hands out a token, which has to be good for a while yet.
        longest = min(_LONGEST_CACHED, self._tokens.lifetime / 2)
        return int(longest.total_seconds()) if closed else 0


def _begin(session: Session) -> datetime:
    """Begin a read-only transaction with one view of the data, and give its responseDate.

    It is the database's clock, by which new documents get their datestamps, read before the view is taken:
    whatever becomes visible later has a later datestamp, however far this machine's clock is off.
    """
    session.connection(execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True})
    moment: datetime = session.scalars(select(func.date_trunc("second", func.now()))).one()
    return moment
