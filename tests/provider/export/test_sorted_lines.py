"""Lines sorted on disk equal those sorted in memory, whatever the memory limit."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.export import sorted_lines
from provider.export.sorted_lines import SortedLines

LINES = st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=60)


@given(LINES, st.integers(min_value=1, max_value=1000))
def test_lines_are_sorted_by_bytes_without_duplicates(lines: list[bytes], memory: int) -> None:
    with SortedLines(run_bytes=memory) as found:
        for line in lines:
            found.add(line)
        assert list(found) == sorted(set(lines))
        assert found.added == len(lines)


def test_lines_longer_than_a_buffer_stay_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sorted_lines, "MERGE_BYTES", 1)
    lines = [letter * 10_000 for letter in (b"c", b"a", b"b")]
    with SortedLines(tmp_path, run_bytes=1) as found:
        for line in lines:
            found.add(line)
        assert list(found) == sorted(lines)
        assert list(tmp_path.iterdir()) == []
