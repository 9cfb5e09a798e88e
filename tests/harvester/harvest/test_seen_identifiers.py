"""Marks identify names that were already received."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from harvester.harvest.seen_identifiers import Known, count_repeated, mark

NAMES = st.lists(st.text(max_size=3), max_size=30)


def test_a_mark_is_the_same_on_every_machine() -> None:
    assert mark("oai:a:1") == int.from_bytes(bytes.fromhex("cfc8411c04ccd655"), "big", signed=True)


def test_lone_surrogates_have_different_marks() -> None:
    assert mark("\ud800") != mark("\udfff")


@given(names=NAMES)
def test_repeated_names_are_counted_without_their_first_occurrence(names: list[str]) -> None:
    assert count_repeated(array("q", map(mark, names))) == len(names) - len(set(names))
    later = names[3:]
    assert count_repeated(array("q", map(mark, names)), min(3, len(names))) == len(later) - len(set(later))


@given(names=NAMES, more=NAMES, asked=st.text(max_size=3))
def test_only_marked_names_are_known(names: list[str], more: list[str], asked: str) -> None:
    known = Known(array("q", map(mark, names))).with_more(map(mark, more))
    assert (asked in known) == (asked in names + more)
    assert all(name in known for name in names + more)


def test_many_marks_are_counted_in_parts() -> None:
    marks = array("q", [mark(str(number)) for number in range(210_000)])
    assert count_repeated(marks + marks[:7]) == 7
    known = Known(marks)
    assert ("209999" in known, "210000" in known) == (True, False)
