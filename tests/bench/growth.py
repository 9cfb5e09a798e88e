"""Growth of the time of each command and job with its input, in databases without statistics.

Tables just written by a run have no statistics, because autovacuum comes later or not at all; a plan that
depends on statistics then compares each row with each. Therefore autovacuum is off, and every step is
measured at n and at 4n.
"""

import asyncio
import os
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from tests.bench.growth_chains import CHAINS
from tests.bench.growth_ground import Chain, Place, Spent, growing_place
from tests.bench.measuring import say
from tests.bench.web import Size, compare, dashboard_database

_HEADINGS: Final = (
    "step", "n", "seconds at n", "seconds at 4n", "of a processor at n", "of a processor at 4n"
)  # fmt: skip
PAGES: Final = "dashboard"
_REPOSITORIES: Final = 2500
"""Each with ten runs and a hundred records, that is 25,000 runs and 250,000 records at n."""
_SHOWN: Final = 12
_PAGE_FLOOR: Final = 0.005
_NOTHING: Final = 16
"""The cost of a step at this size counts as its start-up; two documents for each archive file."""
_STARTS: Final = 2
_TIMES: Final = 4
_ALLOWED: Final = 5.0
_LONG_ENOUGH: Final = 2.0
_FLOOR: Final = 0.5
"""Seconds; a step that takes less at n counts as this long, because its ratio would be noise."""


@dataclass(frozen=True, kw_only=True)
class Grown:
    """The measurement of a step, less its start-up."""

    name: str
    size: int
    small: Spent
    large: Spent
    floor: float = _FLOOR
    """Minimum seconds used in the ratio."""

    @property
    def ratio(self) -> float:
        """Ratio of the processor times at 4n and n."""
        return max(self.large.processor, self.floor) / max(self.small.processor, self.floor)


def measure(*, only: str | None, repeat: int, n: int | None, doublings: int) -> None:
    """Print a Markdown table: the cost of each step at n and at 4n, without its start-up.

    Unless given, n is the smallest size at which the step takes 2 s of processor time: at least 25,000 (fewer
    if each item is a request or a process), doubled at most `doublings` times.
    """
    wanted = _wanted(only)
    say(*_HEADINGS, f"ratio (at most {_ALLOWED:g})", "")
    say("---", *["---:"] * len(_HEADINGS), "---")
    found: list[Grown] = []
    with growing_place() as place:
        for chain, names in wanted.items():
            for grown in _measure_chain(place, chain, names, repeat=repeat, given=n, doublings=doublings):
                found.append(grown)
                _tell(grown)
    if only is None or PAGES in only.split(","):
        found += _measure_pages()
    over = sum(grown.ratio > _ALLOWED for grown in found)
    say(
        "in all",
        *[""] * len(_HEADINGS),
        f"{over} of {len(found)} over {_ALLOWED:g}; load {os.getloadavg()[0]:.1f}",
    )


def _measure_pages() -> Sequence[Grown]:
    """Measure every page and list of the dashboard, with few repositories and with four times as many."""
    small = Size(repositories=_REPOSITORIES, documents=10 * _REPOSITORIES)
    large = Size(repositories=_TIMES * _REPOSITORIES, documents=_TIMES * 10 * _REPOSITORIES)
    with (
        dashboard_database(small, statistics=False) as one,
        dashboard_database(large, statistics=False) as other,
    ):
        pages = asyncio.run(compare(one, other))
    found = [
        Grown(
            name=f"{PAGES}: `{path}`, {role}",
            size=_REPOSITORIES,
            small=Spent(seconds=asked.small, processor=asked.small),
            large=Spent(seconds=asked.large, processor=asked.large),
            floor=_PAGE_FLOOR,
        )
        for (role, path), asked in pages.items()
        if asked.statuses != {HTTPStatus.FORBIDDEN}  # a page that the role may not see takes no time
    ]
    found.sort(key=lambda grown: -grown.ratio)
    for grown in found[:_SHOWN]:
        _tell(grown, digits=3)
    say(f"{PAGES}: {len(found) - _SHOWN} others", *[""] * len(_HEADINGS), "none over these")
    return found


def _wanted(only: str | None) -> Mapping[Chain, Sequence[str]]:
    """Return the chains with the steps to measure; `only` names chains, or steps as in the table."""
    # Some step names contain commas.
    asked = [part.strip() for part in re.split(r",(?! )", only)] if only else [chain.name for chain in CHAINS]
    wanted = {
        chain: [step.name for step in chain.steps if {chain.name, f"{chain.name}: {step.name}"} & set(asked)]
        for chain in CHAINS
    }
    if not any(wanted.values()) and PAGES not in asked:
        raise SystemExit(
            f"no step is named {only!r}; chains: {', '.join(chain.name for chain in CHAINS)}, {PAGES}"
        )
    return {chain: names for chain, names in wanted.items() if names}


def _measure_chain(
    place: Place, chain: Chain, names: Sequence[str], *, repeat: int, given: int | None, doublings: int
) -> Sequence[Grown]:
    last = [step.name for step in chain.steps if step.name in names][-1]
    runs = [chain.measure(place, _NOTHING, last) for _ in range(_STARTS)]
    starts = {name: _median(runs, name) for name in runs[0]}
    sizes = dict.fromkeys(names, given) if given else _sizes(place, chain, names, starts, doublings)
    found: dict[str, Grown] = {}
    for size in sorted(set(sizes.values())):
        together = [name for name in names if sizes[name] == size]
        found |= _grown(place, chain, together, size, starts, repeat)
    return [found[step.name] for step in chain.steps if step.name in names]


def _sizes(
    place: Place, chain: Chain, names: Sequence[str], starts: Mapping[str, Spent], doublings: int
) -> Mapping[str, int]:
    """Return for each step the smallest size at which it takes long enough, found by doubling."""
    sizes: dict[str, int] = {}
    for number in range(doublings):
        left = [name for name in names if name not in sizes]
        if not left:
            break
        size = chain.least * 2**number
        times = chain.measure(place, size, left[-1])
        enough = [name for name in left if (times[name] - starts[name]).processor >= _LONG_ENOUGH]
        sizes |= dict.fromkeys(enough, size)
    return {name: sizes.get(name, chain.least * 2**doublings) for name in names}


def _grown(
    place: Place, chain: Chain, names: Sequence[str], size: int, starts: Mapping[str, Spent], repeat: int
) -> Mapping[str, Grown]:
    """Return the medians at both sizes, measured alternately, so that other load affects both."""
    last = [step.name for step in chain.steps if step.name in names][-1]
    small, large = [], []
    for number in range(repeat):
        sys.stderr.write(f"{chain.name}: {size:,} and {_TIMES * size:,}, {number + 1} of {repeat}\n")
        small.append(chain.measure(place, size, last))
        large.append(chain.measure(place, _TIMES * size, last))
    return {
        name: Grown(
            name=f"{chain.name}: {name}",
            size=size,
            small=_median(small, name) - starts[name],
            large=_median(large, name) - starts[name],
        )
        for name in names
    }


def _median(runs: Sequence[Mapping[str, Spent]], name: str) -> Spent:
    return Spent(
        seconds=statistics.median(run[name].seconds for run in runs),
        processor=statistics.median(run[name].processor for run in runs),
    )


def _tell(grown: Grown, digits: int = 1) -> None:
    say(
        grown.name,
        f"{grown.size:,}",
        f"{grown.small.seconds:.{digits}f}",
        f"{grown.large.seconds:.{digits}f}",
        f"{grown.small.processor:.{digits}f}",
        f"{grown.large.processor:.{digits}f}",
        f"{grown.ratio:.1f}",
        "more than linear" if grown.ratio > _ALLOWED else "",
    )
