"""Bodies are decompressed by what they are, whatever is said of them."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.client.decoding import Decoded, TooLargeError, decode
from oai.failures import FailureCode
from oai.limits import AnswerLimits

_TEXT = b"<?xml version='1.0'?><a>" + bytes(range(32, 127)) * 500 + b"</a>"
_LIMITS = AnswerLimits(answer_bytes=1_000_000)


def _raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


@pytest.mark.parametrize("announced", ["", "gzip", "deflate", "identity", "br", "x-gzip"])
@pytest.mark.parametrize(
    ("body", "found"),
    [
        (_TEXT, ()),
        (gzip.compress(_TEXT), ("gzip",)),
        (zlib.compress(_TEXT), ("deflate",)),
        (gzip.compress(gzip.compress(_TEXT)), ("gzip", "gzip")),
        (gzip.compress(_TEXT[:99]) + gzip.compress(_TEXT[99:]), ("gzip",)),
        (gzip.compress(_TEXT) + b"\0\0\0\0", ("gzip",)),
    ],
    ids=["plain", "gzip", "deflate", "twice", "two members", "padded"],
)
def test_what_is_announced_does_not_matter(body: bytes, found: tuple[str, ...], announced: str) -> None:
    assert decode(body, announced, _LIMITS) == Decoded(body=_TEXT, found=found)


def test_deflate_without_a_wrapping_is_known_by_its_announcement_alone() -> None:
    assert decode(_raw_deflate(_TEXT), "deflate", _LIMITS).body == _TEXT
    assert decode(_raw_deflate(_TEXT), "", _LIMITS).found == ()


def test_of_compressed_data_that_break_off_the_beginning_comes_with_the_fault() -> None:
    data = gzip.compress(_TEXT, compresslevel=0)
    decoded = decode(data[:-1000], "gzip", _LIMITS)
    assert decoded.fault == "the compressed data are truncated"
    assert len(decoded.body) > 10_000
    assert _TEXT.startswith(decoded.body[:])


def test_data_that_are_broken_are_told() -> None:
    data = bytearray(gzip.compress(_TEXT))
    data[-6] ^= 255
    assert "incorrect data check" in decode(bytes(data), "", _LIMITS).fault


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_bomb_is_given_up_at_the_limit(layers: int) -> None:
    data = b"\0" * 50_000_000
    for _ in range(layers):
        data = gzip.compress(data)
    with pytest.raises(TooLargeError):
        decode(data, "gzip", AnswerLimits(answer_bytes=100_000))


def test_a_body_of_just_the_limit_is_no_bomb() -> None:
    assert len(decode(gzip.compress(_TEXT), "", AnswerLimits(answer_bytes=len(_TEXT))).body) == len(_TEXT)
    with pytest.raises(TooLargeError):
        decode(gzip.compress(_TEXT), "", AnswerLimits(answer_bytes=len(_TEXT) - 1))


@given(st.binary(max_size=300), st.sampled_from(["", "gzip", "deflate"]))
def test_no_body_breaks_it(body: bytes, announced: str) -> None:
    decoded = decode(body, announced, _LIMITS)
    assert decoded.found or decoded.body == body


@given(st.binary(max_size=2000).filter(lambda text: not text.startswith((b"\x1f\x8b", b"x"))))
def test_whatever_was_compressed_comes_back(text: bytes) -> None:
    assert decode(gzip.compress(text), "", _LIMITS).body == text


def test_a_short_body_that_unpacks_to_very_much_is_given_up_at_the_ratio() -> None:
    data = gzip.compress(gzip.compress(b" " * 100_000_000))
    with pytest.raises(TooLargeError) as caught:
        decode(data, "gzip", AnswerLimits())
    assert caught.value.failure.code is FailureCode.ANSWER_RATIO
    assert caught.value.failure.facts["sent"] == len(data)
    assert caught.value.failure.facts["setting"] == "harvester.max_answer_ratio"
