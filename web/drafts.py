"""What repositories said while they were being added: kept for a while, so that no step asks them anew."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from harvester.repositories import RepositoryFacts, recognise_repository
from oai.settings import Settings
from web.patience import ask_apart

_MOST: Final = 64
_SECONDS: Final = 1800.0


@dataclass(kw_only=True)
class Drafts:
    """The answers of the last repositories that were asked, for half an hour each."""

    settings: Settings
    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[tuple[str, str | None], tuple[float, RepositoryFacts]] = field(
        default_factory=OrderedDict
    )

    async def ask(self, base_url: str, protocol: str | None = None, *, anew: bool = False) -> RepositoryFacts:
        """What the repository says of itself; asked where that is not known, or with `anew`.

        Without a protocol, it is recognised. Raises ClientError, TryLaterError and SettingsError.
        """
        key = (base_url, protocol)
        known = self._kept.get(key)
        if known is not None and not anew and self.clock() - known[0] < _SECONDS:
            return known[1]
        facts = await ask_apart(recognise_repository, base_url, self.settings, protocol=protocol)
        self._kept[key] = (self.clock(), facts)
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return facts


DRAFTS = web.AppKey("drafts", Drafts)
