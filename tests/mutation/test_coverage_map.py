from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="installed with the extra `mutation`")

from tests.mutation.coverage_map import CoverageMap, Place
from tests.mutation.mutants import Mutant

MODULE = """\
LIMIT = 3


@cache
def limited(numbers, most=LIMIT):
    if len(
        numbers
    ) > most:
        return most
    return len(numbers)


class Counter:
    step = 1

    def next(self):
        return self.last + self.step
"""


@pytest.mark.parametrize(
    ("line", "lines", "names"),
    [
        (7, [6, 7, 8], []),
        (9, [9], []),
        (4, [6, 7, 8, 9, 10], ["limited"]),
        (5, [6, 7, 8, 9, 10], ["limited"]),
        (1, [], ["LIMIT"]),
        (14, [14, 15, 16, 17], ["Counter", "step"]),
        (17, [17], []),
    ],
)
def test_a_line_is_covered_by_the_lines_of_its_statement_or_by_mentions(
    line: int, lines: list[int], names: list[str]
) -> None:
    assert Place.find(MODULE, line) == Place(lines=lines, names=names)


@pytest.fixture
def covered(tmp_path: Path) -> CoverageMap:
    (tmp_path / "manager").mkdir()
    (tmp_path / "manager" / "counting.py").write_text(MODULE)
    durations = {
        "tests/manager/test_other.py::test_quick": 0.1,
        "tests/manager/test_counting.py::test_slow": 20.0,
        "tests/manager/test_counting.py::test_own": 1.0,
    }
    covered = CoverageMap(root=tmp_path, durations=durations)
    covered.lines["manager/counting.py"][6] |= {*durations}
    covered.lines["manager/counting.py"][10].add("tests/manager/test_other.py::test_quick")
    return covered


def mutant(line: int) -> Mutant:
    return Mutant(
        package="manager",
        module="manager/counting.py",
        operator="NumberReplacer",
        occurrence=0,
        line=line,
        column=0,
        function="",
    )


def test_tests_of_the_module_come_first_and_then_the_quickest(covered: CoverageMap) -> None:
    assert [test.partition("::")[2] for test in covered.tests_for(mutant(7), most=9, seconds=30)] == [
        "test_own", "test_slow", "test_quick",
    ]  # fmt: skip


def test_the_tests_of_a_mutant_are_limited_in_number_and_duration(covered: CoverageMap) -> None:
    assert len(covered.tests_for(mutant(7), most=1, seconds=30)) == 1
    assert [test.partition("::")[2] for test in covered.tests_for(mutant(7), most=9, seconds=5)] == [
        "test_own", "test_quick",
    ]  # fmt: skip


def test_a_constant_is_covered_by_the_tests_of_lines_that_mention_it(covered: CoverageMap) -> None:
    covered.lines["manager/counting.py"][5].add("tests/manager/test_other.py::test_quick")

    assert covered.tests_for(mutant(1), most=1, seconds=30) == ["tests/manager/test_other.py::test_quick"]


def test_a_line_that_no_test_runs_gets_the_tests_of_its_module(covered: CoverageMap) -> None:
    assert covered.tests_for(mutant(9), most=9, seconds=30) == [
        "tests/manager/test_counting.py::test_own", "tests/manager/test_counting.py::test_slow",
    ]  # fmt: skip


def test_a_written_map_is_read_unchanged(covered: CoverageMap, tmp_path: Path) -> None:
    covered.write(tmp_path / "map.json")

    assert CoverageMap.read(tmp_path / "map.json", tmp_path) == covered
