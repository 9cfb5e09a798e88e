"""A file read by ranges has the exact bytes of the object, in any order of reads."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.storage.ranges import RangeReader

_CONTENT = bytes(range(256)) * 40


@given(
    st.integers(1, 3000),
    st.none() | st.integers(1, 3000),
    st.integers(0, 1),
    st.lists(st.tuples(st.integers(0, len(_CONTENT) + 10), st.integers(0, 2000)), max_size=20),
)
def test_reads_at_any_offset_return_the_bytes_of_the_object(
    step: int, first: int | None, ahead: int, reads: list[tuple[int, int]]
) -> None:
    reader = io.BufferedReader(
        RangeReader(lambda b, e: _CONTENT[b:e], len(_CONTENT), step=step, first=first, ahead=bool(ahead)), 64
    )
    with reader:
        for place, length in reads:
            reader.seek(place)
            assert reader.read(length) == _CONTENT[place : place + length]
        assert reader.seek(0, io.SEEK_END) == len(_CONTENT)


def test_sequential_reads_with_overlaps_request_each_byte_once() -> None:
    asked: list[tuple[int, int]] = []

    def fetch(begin: int, end: int) -> bytes:
        asked.append((begin, end))
        return _CONTENT[begin:end]

    with io.BufferedReader(RangeReader(fetch, len(_CONTENT), step=1000, ahead=True), 64) as reader:
        for place in range(0, len(_CONTENT), 90):
            reader.seek(place)  # after the end of the bytes read so far, as at the end of a gzip member
            reader.read(130)

    assert sorted(asked) == [(place, min(place + 1000, 10240)) for place in range(0, 10240, 1000)]


def test_a_failed_request_is_raised_by_the_read_that_needs_it() -> None:
    def fetch(begin: int, end: int) -> bytes:
        if begin >= 2000:
            raise OSError("no answer")
        return _CONTENT[begin:end]

    with io.BufferedReader(RangeReader(fetch, len(_CONTENT), step=1000, ahead=True), 64) as reader:
        assert reader.read(1500) == _CONTENT[:1500]
        with pytest.raises(OSError, match="no answer"):
            reader.read(1500)
