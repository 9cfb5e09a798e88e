"""The mutation run: `python -m tests.mutation` (`script/mutate`). CONTRIBUTING.md describes it."""

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.mutation.confirmation import confirmations, unconfirmed
from tests.mutation.coverage_map import TESTS, CoverageMap
from tests.mutation.mutants import PACKAGES, Mutant, sample
from tests.mutation.running import Planned, Result, mutant_of, run

_ROOT: Final = Path(__file__).parents[2]
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 memory file system of Linux; names in it are made by tempfile


def main() -> int:
    """Run what the arguments ask for; returns 0 if every mutant has a result."""
    asked = _arguments()
    # Ends the trials and the server, and removes the files, as the other ends do.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    place = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="zatva-mutation-", dir=place) as name:
        folder = Path(name)
        folder.chmod(0o711)  # a server started by root runs under another account
        covered = CoverageMap.read(asked.map, _ROOT)
        if asked.measure is not None or not covered.durations:
            covered.measure(_made(folder / "coverage"), asked.measure or TESTS, asked.jobs)
            covered.write(asked.map)
        if asked.mutants:
            _run(asked, covered, _made(folder / "trials"))
    return 0


def _run(asked: argparse.Namespace, covered: CoverageMap, folder: Path) -> None:
    drawn = sample(_ROOT, asked.mutants, asked.seed)
    mutants = [mutant for mutant in drawn if mutant.module.startswith(asked.only)]
    results = _read_results(asked.results)
    if asked.confirm:
        killed = [results[one.key] for one in mutants if results.get(one.key, {}).get("outcome") == "killed"]
        trials = run(_ROOT, folder, confirmations(killed, covered, _ROOT), asked.jobs)
        found = []
        for result in trials:
            _print(result)
            found.append(result)
        _take(unconfirmed(killed, found), results, asked.results)
    else:
        again = {key for key, result in results.items() if asked.again and result["outcome"] != "killed"}
        open_ones = [mutant for mutant in mutants if mutant.key not in results or mutant.key in again]
        planned = _planned(open_ones, covered, asked.tests, asked.seconds)
        _take(run(_ROOT, folder, planned, asked.jobs), results, asked.results)
    _print_table([results[mutant.key] for mutant in mutants if mutant.key in results])


def _take(found: Iterable[Result], results: dict[str, Result], path: Path | None) -> None:
    """Print the results, and append them to the file."""
    for result in found:
        results[mutant_of(result).key] = result
        _print(result)
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="script/mutate", description="Mutation run; see CONTRIBUTING.md.")
    parser.add_argument("--mutants", type=int, default=600, help="size of the sample (default: 600)")
    parser.add_argument("--seed", type=int, default=19, help="seed of the sample (default: 19)")
    parser.add_argument("--jobs", type=int, default=2, help="trials at a time (default: 2)")
    parser.add_argument(
        "--only", default="", metavar="PACKAGE", help="only the sample's mutants in this package or module"
    )
    parser.add_argument("--tests", type=int, default=40, help="most tests for a mutant (default: 40)")
    parser.add_argument("--seconds", type=float, default=30, help="their most seconds (default: 30)")
    parser.add_argument(
        "--map", type=Path, default=Path(tempfile.gettempdir(), "zatva-coverage-map.json"),
        help="file that says which tests run which line; made if absent (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--measure", nargs="*", metavar="TESTS", help="measure these tests (default: all) again for the map"
    )
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="append results as JSON lines; mutants in it are skipped"
    )
    parser.add_argument(
        "--again", action="store_true", help="do not skip mutants that have survived, for new or more tests"
    )
    parser.add_argument(
        "--confirm",
        action="store_true",
        help="instead, repeat each kill with its test alone, and without mutant",
    )
    return parser.parse_args()


def _made(folder: Path) -> Path:
    folder.mkdir(mode=0o711)
    return folder


def _read_results(path: Path | None) -> dict[str, Result]:
    """Return the last result of each mutant in the file."""
    if path is None or not path.exists():
        return {}
    results = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {mutant_of(result).key: result for result in results}


def _planned(mutants: list[Mutant], covered: CoverageMap, most: int, seconds: float) -> Iterator[Planned]:
    """Yield the trials; a mutant that no test can notice survives without one."""
    for mutant in mutants:
        text = mutant.source(_ROOT)
        assert text is not None
        tests = covered.tests_for(mutant, most=most, seconds=seconds)
        yield Planned(
            mutant=mutant, text=text, tests=tests, seconds=sum(covered.durations[test] for test in tests)
        )


def _print(result: Result) -> None:
    verdict = f"killed by {result['by']}" if result["outcome"] == "killed" else result["outcome"]
    place = f"{result['module']}:{result['line']}"
    sys.stdout.write(f"{place} {result['operator']}: {verdict} ({result['seconds']} s)\n")
    sys.stdout.flush()


def _print_table(results: list[Result]) -> None:
    """Print the score by package."""
    total = Counter(result["package"] for result in results)
    killed = Counter(result["package"] for result in results if result["outcome"] == "killed")
    sys.stdout.write(f"\n{'package':<20} {'mutants':>8} {'killed':>8} {'score':>8}\n")
    for name in [package for package in PACKAGES if total[package]]:
        sys.stdout.write(_row(name, total[name], killed[name]))
    sys.stdout.write(_row("all", total.total(), killed.total()))


def _row(name: str, mutants: int, killed: int) -> str:
    return f"{name:<20} {mutants:>8} {killed:>8} {killed / max(mutants, 1):>8.1%}\n"


if __name__ == "__main__":
    sys.exit(main())
