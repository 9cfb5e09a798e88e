"""Requests to repositories while a user waits: with short timeouts and in a child process."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from harvester.isolated import isolated
from oai.settings import Settings

_SECONDS: Final = 30.0
_LONGEST_RETRY_AFTER: Final = 2.0
_LONGEST_IN_ALL: Final = 10.0
_T = TypeVar("_T")


def with_short_timeouts(settings: Settings) -> Settings:
    """Return the settings for a waiting user: short timeouts and limited response size."""
    settings = settings.interactive
    patient = settings.harvester
    short = {
        "timeout": min(patient.timeout, _SECONDS),
        "max_wait": min(patient.max_wait, _LONGEST_RETRY_AFTER),
        "max_wait_total": min(patient.max_wait_total, _LONGEST_IN_ALL),
    }
    return settings.model_copy(update={"harvester": patient.model_copy(update=short)})


async def ask_apart(
    work: Callable[..., Awaitable[_T]],
    base_url: str,
    settings: Settings,
    *arguments: object,
    notes: Mapping[str, Callable[[Any], None]] | None = None,
    **options: object,
) -> _T:
    """Return the result of `work(base_url, settings, …)`, which queries a repository; see `isolated`.

    It receives the settings with short timeouts and without the database's address.
    """
    asked = with_short_timeouts(settings).model_copy(update={"database_url": None})
    limits = asked.harvester.limits
    return await isolated(
        work, base_url, asked, *arguments, url=base_url, limits=limits, notes=notes, **options
    )
