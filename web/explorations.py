"""Questions that people put to live repositories: one at a time for each, and not too many a minute."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from harvester.client.transport import Arguments
from harvester.exploring import Asked, ask
from harvester.models import Repository
from oai.datestamps import format_datestamp, utc_now
from oai.errors import TryLaterError
from oai.settings import Settings
from oai.vocabulary import Verb
from web.api.limits import Limiter
from web.patience import ask_apart
from web.words import _

_PER_MINUTE: Final = 30
_MOST_LOCKS: Final = 1000


@dataclass(kw_only=True)
class Explorations:
    """The questions of this process; the limit is for each repository, whoever asks."""

    settings: Settings
    limiter: Limiter = field(default_factory=lambda: Limiter(per_minute=_PER_MINUTE))
    _turns: dict[int, asyncio.Lock] = field(default_factory=dict)

    async def ask(self, repository: Repository, verb: Verb, arguments: Arguments) -> Asked:
        """Ask, when it is this question's turn.

        Raises TryLaterError where the repository asked to be left alone, or was asked too often; UsageError
        and SettingsError as `harvester.exploring.ask` does.
        """
        self.check(repository)
        async with self._turn(repository.repository_id):
            return await ask_apart(
                ask,
                repository.base_url,
                self.settings,
                verb,
                arguments,
                protocol=repository.protocol,
            )

    def check(self, repository: Repository) -> None:
        """Count a question. Raises TryLaterError as `ask` does."""
        if repository.not_before is not None and repository.not_before > utc_now():
            until = format_datestamp(repository.not_before)
            raise TryLaterError(_("The repository asked for no requests until %(time)s.") % {"time": until})
        seconds = self.limiter.wait(str(repository.repository_id))
        if seconds:
            raise TryLaterError(
                _("Too many requests to the repository; try again in %(seconds)s s.")
                % {"seconds": round(seconds) + 1}
            )

    def _turn(self, repository_id: int) -> asyncio.Lock:
        if len(self._turns) > _MOST_LOCKS:
            self._turns = {number: lock for number, lock in self._turns.items() if lock.locked()}
        return self._turns.setdefault(repository_id, asyncio.Lock())


EXPLORATIONS: Final = web.AppKey("explorations", Explorations)
