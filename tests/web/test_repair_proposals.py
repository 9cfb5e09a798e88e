"""The changes that a proposed repair makes, as the page of a broken record and the letter show them."""

import pytest

from web.errors.repairs import proposal_for


def _changes(raw: bytes) -> list[tuple[str, str]]:
    proposal = proposal_for(raw, len(raw))
    assert proposal is not None
    return [(change.old, change.new) for change in proposal.changes]


@pytest.mark.parametrize(
    ("content", "changes"),
    [
        (b"Bed & board", [("", "amp;")]),
        (b"Bed & board, this & that", [("", "amp;"), ("", "amp;")]),
        (b"x &nbsp; y", [("nbsp", "#160")]),
        (b"x\x01y", [("␁", "")]),
        (b"1 < 2", [("<", "&lt;")]),
        (b"\x01\x02 end &", [("␁␂", ""), ("", "amp;")]),
        (b"P\xf8\xedli\x9a", [("\\xf8\\xed", "ří"), ("\\x9a", "š")]),
    ],
)
def test_each_change_has_the_characters_before_and_after(
    content: bytes, changes: list[tuple[str, str]]
) -> None:
    assert _changes(b"<record><a>" + content + b"</a></record>") == changes


def test_the_change_of_a_long_line_is_shown_with_its_surroundings() -> None:
    filling = b"<a>b</a>" * 12_000
    raw = b"<record>" + filling + b"<a>Bed & board</a>" + filling + b"</record>"
    proposal = proposal_for(raw, len(raw))
    assert proposal is not None
    [change] = proposal.changes
    assert change.before.endswith("<a>Bed &")
    assert (change.old, change.new) == ("", "amp;")
    assert change.after.startswith(" board</a>")


def test_more_changes_than_are_shown_are_indicated() -> None:
    raw = b"<record><a>" + b"this & that, " * 6 + b"</a></record>"
    proposal = proposal_for(raw, len(raw))
    assert proposal is not None
    assert len(proposal.changes) == 5
    assert proposal.more
