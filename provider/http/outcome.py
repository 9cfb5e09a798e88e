"""What a route tells of its answer, for counting."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from oai.vocabulary import ErrorCode
from provider.protocol.exchange import Progress

BAD_VERB: Final = "bad verb"
"""Stands for whatever else was given as verb."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was asked for, and what came of it."""

    verb: str
    """The OAI-PMH verb, or BAD_VERB."""
    codes: tuple[ErrorCode, ...]
    """The protocol errors in the answer."""
    progress: Progress | None
    """How far through a list the answer is."""


OUTCOME: Final = web.RequestKey("outcome", Outcome)
"""Where a route leaves it with the request."""
