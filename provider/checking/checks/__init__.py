"""All checks, in the order in which they run."""

from typing import Final

from provider.checking.checks import (
    answers,
    errors,
    formats,
    identify,
    lists,
    records,
    sets,
    tokens,
    transport,
)
from provider.checking.findings import Check

CHECKS: Final[tuple[Check, ...]] = (
    *transport.VERB_CHECKS,
    *identify.LIST.checks,
    *formats.LIST.checks,
    *sets.LIST.checks,
    *lists.LIST.checks,
    *records.LIST.checks,
    *tokens.LIST.checks,
    *answers.REQUEST_LIST.checks,
    *(refusal.check() for refusal in errors.REFUSALS),
    *transport.LIST.checks,
    *answers.LIST.checks,
)
"""Checks of all answers run last, when all requests have been made."""
