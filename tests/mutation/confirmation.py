"""Confirms kills: the test fails again with the mutant, alone, and passes without it.

A test that fails now and then, for instance on a machine that is busy, would otherwise count as one that
notices a mutant.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.mutation.coverage_map import CoverageMap
from tests.mutation.running import Planned, Result, mutant_of

UNCONFIRMED: Final = "unconfirmed"
"""Outcome of a mutant whose test passes with it, or fails without it."""
_NO_CHANGE: Final = "none"


def confirmations(killed: Iterable[Result], covered: CoverageMap, root: Path) -> Iterator[Planned]:
    """Yield a trial for each mutant that a test has killed, and one without a mutant for each test."""
    tests: set[str] = set()
    for result in killed:
        mutant, test = mutant_of(result), result["by"]
        if not test.startswith("tests/"):
            continue  # a hang, or an import that raises
        seconds = covered.durations.get(test, 0)
        text = mutant.source(root)
        assert text is not None
        yield Planned(mutant=mutant, text=text, tests=[test], seconds=seconds)
        if test not in tests:
            tests.add(test)
            unchanged = (root / mutant.module).read_text(encoding="utf-8")
            planned = replace(mutant, operator=_NO_CHANGE)
            yield Planned(mutant=planned, text=unchanged, tests=[test], seconds=seconds)


def unconfirmed(killed: Iterable[Result], found: Sequence[Result]) -> Iterator[Result]:
    """Yield the results that the trials do not confirm; `by` stays the test."""
    passed = {mutant_of(one).key for one in found if one["outcome"] == "survived"}
    failing = {one["by"] for one in found if one["operator"] == _NO_CHANGE and one["outcome"] == "killed"}
    for result in killed:
        if mutant_of(result).key in passed or result["by"] in failing:
            yield {**result, "outcome": UNCONFIRMED}
