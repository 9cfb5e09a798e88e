"""Differences between two texts, line by line."""

from harvester.rule_lab.explanation import difference


def test_a_difference_has_two_lines_before_and_after_each_change() -> None:
    before = "\n".join("abcdefgh")
    assert difference(before, before.replace("e", "x"), names=("1", "2")).splitlines() == [
        "--- 1", "+++ 2", "@@ -3,5 +3,5 @@", " c", " d", "-e", "+x", " f", " g"
    ]  # fmt: skip


def test_texts_with_too_many_equal_lines_differ_from_the_first_to_the_last_change() -> None:
    lines = [f"line {number % 110}" for number in range(20_000)]
    changed = [
        line for number, line in enumerate(lines) for line in ([line, "added"] if number % 2 else [line])
    ]
    found = difference("\n".join(lines), "\n".join(changed)).splitlines()
    assert found[:5] == [
        "--- as it is",
        "+++ as it would be",
        "@@ -3,19998 +3,29998 @@",
        "-line 2",
        "-line 3",
    ]
    assert len(found) == 3 + 19_998 + 29_998
    assert found[-1] == "+added"


def test_many_different_lines_are_compared() -> None:
    lines = [f"<subject>{number}</subject>" for number in range(5000)]
    after = [*lines[:2500], "<subject>new</subject>", *lines[2500:]]
    found = difference("\n".join(lines), "\n".join(after)).splitlines()
    assert [line for line in found[2:] if line[0] in "+-"] == ["+<subject>new</subject>"]
