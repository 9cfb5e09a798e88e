"""The faster libraries of the extra `fast` give the same results as zlib for intact and damaged data."""

import gzip
import io
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai import compression
from provider.reading import content
from provider.reading.content import DamageError, GzipMember

_PAYLOADS = st.binary(max_size=200) | st.builds(
    lambda piece, n: piece * n, st.binary(max_size=60), st.integers(1, 900)
)


def _read(data: bytes, most: int) -> tuple[bytes, object]:
    """Return the content of a member, and its end or the kind of damage."""
    member = GzipMember(io.BytesIO(data), 0)
    found = bytearray()
    try:
        while piece := member.read(most):
            assert len(piece) <= most
            found += piece
        return bytes(found), member.end()
    except DamageError as damage:
        return bytes(found), (type(damage), str(damage))


def _both(data: bytes, most: int) -> tuple[tuple[bytes, object], tuple[bytes, object]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "inflater", zlib.decompressobj)
        plain = _read(data, most)
    return plain, _read(data, most)


@given(_PAYLOADS, st.integers(1, 9), st.integers(1, 70_000), st.binary(max_size=300))
def test_both_libraries_find_the_same_end_of_a_member(
    payload: bytes, level: int, most: int, behind: bytes
) -> None:
    data = gzip.compress(payload, level)
    plain, fast = _both(data + behind, most)
    assert plain == fast == (payload, len(data))


@given(_PAYLOADS, st.data(), st.integers(1, 70_000))
def test_both_libraries_find_the_same_damage(payload: bytes, draw: st.DataObject, most: int) -> None:
    data = bytearray(gzip.compress(payload, 6))
    place = draw.draw(st.integers(4, len(data) - 1))  # not the magic number and the method
    if draw.draw(st.booleans()):
        data[place] ^= draw.draw(st.integers(1, 255))
        # isal accepts reserved flags, which zlib refuses; no program writes them.
        data[3] &= 0x1F
    else:
        del data[place:]
    plain, fast = _both(bytes(data), most)
    assert plain[1] == fast[1]
    if isinstance(plain[1], int):
        assert plain[0] == fast[0]  # the content of damaged members is not used


def test_compressed_responses_are_standard_gzip_members(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"<record>x</record>" * 5000
    for library in (compression.ZLIB_NG, None):  # as without the extra
        monkeypatch.setattr(compression, "ZLIB_NG", library)
        for level in (1, 2, 5, 9):
            packed = compression.gzipped(text, level)
            assert packed == compression.gzipped(text, level)
            assert gzip.decompress(packed) == text


def test_the_tests_run_with_the_faster_libraries() -> None:
    assert compression.inflater(31).__class__.__module__ != "zlib"
    assert compression.INFLATE_ERRORS[0] is zlib.error
    assert len(compression.INFLATE_ERRORS) == 2
