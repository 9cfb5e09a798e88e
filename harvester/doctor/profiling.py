"""The harvest profile that follows from the facts of an examination."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harvester.doctor.findings import Fact, Profile

_GENTLE_SECONDS: Final = 1.0
_PATIENT: Final = 8

_RULES: Final[Sequence[tuple[frozenset[str], Mapping[str, Any]]]] = (
    (frozenset({"token.failed", "token.repeats"}), {"slice": "day"}),
    (frozenset({"token again.refused", "token again.other", "token expiry.short"}), {"slice": "month"}),
    (frozenset({"from.ignored", "from.failed", "response date.wrong"}), {"incremental": False}),
    (frozenset({"speed.slow"}), {"delay": _GENTLE_SECONDS, "retries": _PATIENT}),
)
"""Which facts ask for what; of two that say the same thing the first one counts."""


def profile_of(facts: Sequence[Fact], *, metadata_prefix: str, failed_requests: int = 0) -> Profile:
    """How a repository with these facts is best harvested.

    `failed_requests` is how many requests of the examination got no answer at their first try.
    """
    found = {fact.key for fact in facts}
    chosen: dict[str, Any] = {}
    why: list[str] = []
    for causes, values in [*_RULES, *_method_rules(found)]:
        if causes & found and not values.keys() & chosen.keys():
            chosen |= values
            why += sorted(causes & found)
    if failed_requests:
        chosen["retries"] = _PATIENT
    return Profile(metadata_prefix=metadata_prefix, why=tuple(dict.fromkeys(why)), **chosen)


def _method_rules(found: set[str]) -> list[tuple[frozenset[str], Mapping[str, Any]]]:
    """One by one, where the lists of records break and those of identifiers do not."""
    if {"identifiers.same", "get record.well"} <= found or (
        "records.failed" in found and "identifiers.failed" not in found and "get record.failed" not in found
    ):
        return [(frozenset({"records.failed"}), {"method": 1})]
    return []
