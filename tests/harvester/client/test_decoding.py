"""Bodies are decompressed by their content, whatever the headers announce."""

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
def test_a_body_is_decoded_by_its_content_whatever_is_announced(
    body: bytes, found: tuple[str, ...], announced: str
) -> None:
    assert decode(body, announced, _LIMITS) == Decoded(body=_TEXT, found=found)


def test_raw_deflate_is_recognised_only_by_its_announcement() -> None:
    assert decode(_raw_deflate(_TEXT), "deflate", _LIMITS).body == _TEXT
    assert decode(_raw_deflate(_TEXT), "", _LIMITS).found == ()


def test_the_beginning_of_truncated_compressed_data_is_returned_with_the_fault() -> None:
    data = gzip.compress(_TEXT, compresslevel=0)
    decoded = decode(data[:-1000], "gzip", _LIMITS)
    assert decoded.fault == "the compressed data are truncated"
    assert len(decoded.body) > 10_000
    assert _TEXT.startswith(decoded.body[:])


def test_corrupt_compressed_data_are_reported() -> None:
    data = bytearray(gzip.compress(_TEXT))
    data[-6] ^= 255
    assert "incorrect data check" in decode(bytes(data), "", _LIMITS).fault


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_decompression_stops_at_the_size_limit(layers: int) -> None:
    data = b"\0" * 50_000_000
    for _ in range(layers):
        data = gzip.compress(data)
    with pytest.raises(TooLargeError):
        decode(data, "gzip", AnswerLimits(answer_bytes=100_000))


def test_a_body_exactly_at_the_limit_is_accepted() -> None:
    assert len(decode(gzip.compress(_TEXT), "", AnswerLimits(answer_bytes=len(_TEXT))).body) == len(_TEXT)
    with pytest.raises(TooLargeError):
        decode(gzip.compress(_TEXT), "", AnswerLimits(answer_bytes=len(_TEXT) - 1))


@given(st.binary(max_size=300), st.sampled_from(["", "gzip", "deflate"]))
def test_any_body_is_decoded_or_returned_as_it_is(body: bytes, announced: str) -> None:
    decoded = decode(body, announced, _LIMITS)
    assert decoded.found or decoded.body == body


@given(st.binary(max_size=2000).filter(lambda text: not text.startswith((b"\x1f\x8b", b"x"))))
def test_a_compressed_body_is_returned_decompressed(text: bytes) -> None:
    assert decode(gzip.compress(text), "", _LIMITS).body == text


def test_decompression_of_a_short_body_stops_at_the_ratio_limit() -> None:
    data = gzip.compress(gzip.compress(b" " * 100_000_000))
    with pytest.raises(TooLargeError) as caught:
        decode(data, "gzip", AnswerLimits())
    assert caught.value.failure.code is FailureCode.ANSWER_RATIO
    assert caught.value.failure.facts["sent"] == len(data)
    assert caught.value.failure.facts["setting"] == "harvester.max_answer_ratio"
