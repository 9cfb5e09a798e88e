"""Records in zstd frames: dictionaries, limits, and faults that lose only their own record."""

import io
import os
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oai.compression import ZSTD
from oai.failures import FailureCode
from provider.reading import zstd_frames
from provider.reading.archived_record import ArchivedRecord
from provider.reading.captures import Capture, Ignored, read_captures
from provider.reading.content import DamageError
from provider.reading.framing import FramingProblem, begins_as_archive
from tests.provider.archives import Page, frame, skippable, warc_other, warc_record

BODIES = [b"<html><title>%d</title>%s</html>" % (number, b"zstd " * number * 500) for number in range(4)]
PAGES = [Page(url=f"http://a.example/{number}", body=body) for number, body in enumerate(BODIES)]
RECORDS = [warc_other("warcinfo"), *map(warc_record, PAGES)]
URLS = [page.url for page in PAGES]
DICTIONARIES = [
    ZSTD.train_dict([record + b"%d" % number for number in range(20) for record in RECORDS[:size]], 2048)
    for size in (2, 3)
]
CONTENT = DICTIONARIES[0].dict_content


def read(path: Path) -> tuple[list[Capture], list[FramingProblem]]:
    with path.open("rb") as file:
        found = list(read_captures(file))
    assert not [one for one in found if one == Ignored(kind="empty")]
    return (
        [item for item in found if isinstance(item, Capture)],
        [item for item in found if isinstance(item, FramingProblem)],
    )


def write(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


def with_dictionary(records: Sequence[bytes], dictionary: Any = DICTIONARIES[0]) -> list[bytes]:
    return [frame(record, dictionary) for record in records]


def body(path: Path, capture: Capture) -> bytes:
    """Return the payload as served."""
    record = ArchivedRecord(path.open("rb"), capture.offset, length=capture.length)
    try:
        return b"".join(record.blocks(capture.digest))
    finally:
        record.close()


@pytest.mark.parametrize("stored", [CONTENT, frame(CONTENT)], ids=["plain", "compressed"])
def test_all_records_of_a_file_with_a_dictionary_are_read_with_their_offsets(
    tmp_path: Path, stored: bytes
) -> None:
    first, frames = skippable(stored, 0x5D), with_dictionary(RECORDS)
    path = write(tmp_path / "x.warc.zst", first, *frames)
    captures, problems = read(path)
    assert problems == []
    places = [len(first) + len(b"".join(frames[:number])) for number in range(1, 5)]
    assert [(one.url, one.offset) for one in captures] == list(zip(URLS, places, strict=True))
    assert [one.packed_length for one in captures] == [len(one) for one in frames[1:]]
    assert [body(path, one) for one in captures] == BODIES
    with path.open("rb") as file:
        assert begins_as_archive(file)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(data=st.data())
def test_a_record_may_be_split_into_frames_at_any_byte(tmp_path: Path, data: st.DataObject) -> None:
    """This includes its last bytes, empty frames, and skippable frames anywhere but first."""
    parts: list[bytes] = []
    begins: list[int] = []
    for number, record in enumerate(RECORDS):
        cuts = data.draw(st.lists(st.integers(0, len(record)), max_size=4).map(sorted))
        begin = min([len(record), *(cut for cut in cuts if cut > 0)])
        pieces = [record[a:b] for a, b in zip([0, *cuts], [*cuts, len(record)], strict=True)]
        for piece in pieces:
            filled: bool = data.draw(st.booleans())
            if parts and filled:
                parts.append(skippable(b"WARC/1.0\r\n", data.draw(st.integers(0x50, 0x5F))))
            if number and piece and piece == record[:begin]:
                begins.append(len(b"".join(parts)))
            parts.append(frame(piece))
    path = write(tmp_path / "x.warc.zst", *parts)
    captures, problems = read(path)
    assert problems == []
    assert [one.url for one in captures] == URLS
    assert [one.offset for one in captures] == begins
    assert [body(path, one) for one in captures] == BODIES


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(place=st.integers(0, 10**6), value=st.integers(1, 255), cut=st.booleans())
def test_damage_is_always_reported_and_never_adds_a_capture(
    tmp_path: Path, place: int, value: int, *, cut: bool
) -> None:
    whole = b"".join([skippable(CONTENT, 0x5D), *with_dictionary(RECORDS)])
    at = len(CONTENT) + 8 + place % (len(whole) - len(CONTENT) - 8)
    changed = whole[:at] if cut else whole[:at] + bytes([whole[at] ^ value]) + whole[at + 1 :]
    captures, problems = read(write(tmp_path / "x.warc.zst", changed))
    assert [one.url for one in captures] == [url for url in URLS if url in {one.url for one in captures}]
    # The first record is not a capture; a file truncated between two frames is valid.
    whole_frames = cut and at in {len(whole) - len(b"".join(with_dictionary(RECORDS[n:]))) for n in range(6)}
    assert problems or whole_frames or len(captures) == 4


@pytest.mark.parametrize(
    ("first", "reason", "codes"),
    [
        (b"", "does not begin with a dictionary", [FailureCode.ARCHIVE_FRAME_REFUSED]),
        (
            skippable(DICTIONARIES[1].dict_content, 0x5D),
            f"needs the dictionary {DICTIONARIES[0].dict_id}, but the file has {DICTIONARIES[1].dict_id}",
            [FailureCode.ARCHIVE_FRAME_REFUSED],
        ),
        (
            skippable(b"no dictionary", 0x5D),
            "the first frame has no zstd dictionary",
            [FailureCode.ARCHIVE_RECORD_BROKEN, FailureCode.ARCHIVE_FRAME_REFUSED],
        ),
        (
            skippable(CONTENT[:40], 0x5D),
            "the dictionary is damaged",
            [FailureCode.ARCHIVE_RECORD_BROKEN, FailureCode.ARCHIVE_FRAME_REFUSED],
        ),
        (
            skippable(frame(CONTENT)[:-9], 0x5D),
            "its frame is not complete",
            [FailureCode.ARCHIVE_RECORD_BROKEN, FailureCode.ARCHIVE_FRAME_REFUSED],
        ),
        (
            skippable(frame(bytes((8 << 20) + 1)), 0x5D),
            "8,388,608 bytes",
            [FailureCode.ARCHIVE_FRAME_REFUSED] * 2,
        ),
    ],
)
def test_a_missing_or_wrong_dictionary_loses_only_the_records_that_need_it(
    tmp_path: Path, first: bytes, reason: str, codes: list[FailureCode]
) -> None:
    plain = frame(RECORDS[1])
    frames = with_dictionary(RECORDS[2:4])
    last = frame(RECORDS[4])
    captures, problems = read(write(tmp_path / "x.warc.zst", first, plain, *frames, last))
    assert [one.url for one in captures] == [URLS[0], URLS[3]]
    assert [one.failure.code for one in problems] == codes
    assert reason in problems[0].reason
    assert problems[-1].offset == len(first + plain)
    assert f"({len(b''.join(frames)):,} bytes not read)" in problems[-1].reason


def test_a_dictionary_above_the_size_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.zst"
    with path.open("wb") as file:
        file.write(b"\x5d\x2a\x4d\x18" + (9 << 20).to_bytes(4, "little"))
        file.seek(9 << 20, os.SEEK_CUR)
        file.write(frame(RECORDS[1]))
    captures, (problem,) = read(path)
    assert [one.url for one in captures] == URLS[:1]
    assert problem.reason == "the dictionary has 9,437,184 bytes, more than 8,388,608"


def test_only_the_record_of_a_frame_with_too_large_a_window_is_lost(tmp_path: Path) -> None:
    large = warc_record(Page(url="http://a.example/large", body=os.urandom(9 << 20)))
    for content in (frame(large, window_log=24), frame(large, window_log=23)):
        captures, problems = read(
            write(tmp_path / "x.warc.zst", *map(frame, RECORDS[:2]), content, frame(RECORDS[2]))
        )
        if problems:
            assert "a zstd frame needs a window of" in problems[0].reason
            assert problems[0].failure.code is FailureCode.ARCHIVE_FRAME_REFUSED
        assert [one.url for one in captures][-1] == URLS[1]
        assert len(captures) == (2 if problems else 3)
    assert not problems


def test_a_decompression_bomb_after_a_record_is_not_decompressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zstd_frames, "MOST_CHECKED", 2 << 20)
    for filling in (bytes(64 << 20), b"\n" * (8 << 20)):
        bomb = frame(RECORDS[1] + filling)
        captures, problems = read(write(tmp_path / "x.warc.zst", frame(RECORDS[0]), bomb, frame(RECORDS[2])))
        assert [one.url for one in captures] == URLS[1:2]
        assert [one.offset for one in problems] == [len(frame(RECORDS[0]))]
        assert f"{len(bomb):,} bytes not read" in problems[0].reason


def test_a_record_without_content_ends_before_the_next_frame(tmp_path: Path) -> None:
    empty = warc_record(Page(url="http://a.example/empty", record_type="resource", body=b""))
    revisit = empty.replace(b"resource", b"revisit")
    path = write(tmp_path / "x.warc.zst", *map(frame, (revisit, empty, RECORDS[1])))
    captures, problems = read(path)
    assert [one.record_type for one in captures] == ["revisit", "resource", "response"]
    assert problems == []


def test_two_records_in_a_frame_are_reported_and_the_first_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "x.warc.zst", frame(RECORDS[1] + RECORDS[2]), frame(RECORDS[3]))
    captures, problems = read(path)
    assert [one.url for one in captures] == [URLS[0], URLS[2]]
    assert [one.failure.code for one in problems] == [FailureCode.ARCHIVE_RECORDS_JOINED]
    assert "zstd frame" in problems[0].reason


def test_content_that_looks_like_a_record_in_its_own_frame_is_content(tmp_path: Path) -> None:
    """The declared length applies; otherwise a page could add captures of other sites to the index."""
    forged = Page(url="http://a.example/upload.warc", body=warc_record(Page(url="http://b.example/")))
    record = warc_record(forged)
    cut = record.index(b"WARC/1.0", 10)
    captures, problems = read(
        write(tmp_path / "x.warc.zst", frame(record[:cut]), frame(record[cut:]), frame(RECORDS[1]))
    )
    assert [one.url for one in captures] == [forged.url, URLS[0]]
    assert problems == []


def test_a_zstd_file_within_a_damaged_record_adds_no_captures(tmp_path: Path) -> None:
    inner = frame(warc_record(Page(url="http://b.example/", body=os.urandom(30_000))))
    record = bytearray(
        frame(warc_record(Page(url="http://a.example/x.zst", body=inner)), compression_level=-7)
    )
    assert inner in record  # it cannot be compressed further
    record[-1] ^= 0xFF
    captures, problems = read(write(tmp_path / "x.warc.zst", bytes(record), frame(RECORDS[1])))
    assert [one.url for one in captures] == URLS[:1]
    assert [one.offset for one in problems] == [0]


class CountedReads(io.FileIO):
    """A file that counts how often it is read."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size) or b""


def test_not_every_record_that_declares_too_much_is_read_to_the_end_of_the_file(tmp_path: Path) -> None:
    one = frame(warc_record(PAGES[1], length=10**9))
    with CountedReads(write(tmp_path / "x.warc.zst", *[one] * 300)) as file:
        found = list(read_captures(file))
        assert [type(item) for item in found] == [FramingProblem] * 300
        assert file.reads < 300 * 60


def test_not_every_damaged_frame_within_another_one_is_read_to_the_end_of_the_file(tmp_path: Path) -> None:
    def raw_block(content: bytes, further: int = 0) -> bytes:
        return (len(content) + further << 3).to_bytes(3, "little") + content

    begin, record = b"\x28\xb5\x2f\xfd\x00\x38", warc_record(PAGES[0], length=10**9)[:200]
    step = len(begin + raw_block(record))
    # Each frame begins within the first block of the one before, and continues with the same blocks.
    block = b"".join(begin + raw_block(record, step * left) for left in range(299, -1, -1))
    path = write(tmp_path / "x.warc.zst", begin, raw_block(record), raw_block(block) * 10)
    with CountedReads(path) as file:
        assert not [item for item in read_captures(file) if isinstance(item, Capture)]
        assert file.reads < 3000 * 40


@pytest.mark.parametrize("kind", [0x5D, 0x53])
def test_a_truncated_skippable_frame_is_reported(tmp_path: Path, kind: int) -> None:
    path = write(tmp_path / "x.warc.zst", frame(RECORDS[1]), skippable(b"x" * 100, kind)[:-1])
    captures, problems = read(path)
    assert [one.url for one in captures] == URLS[:1]
    assert [(one.offset, one.failure.code) for one in problems] == [
        (len(frame(RECORDS[1])), FailureCode.ARCHIVE_RECORD_TRUNCATED)
    ]


def test_without_the_library_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.warc.zst", *map(frame, RECORDS))
    monkeypatch.setattr(zstd_frames, "ZSTD", None)
    with pytest.raises(OSError, match=r"pip install 'zatva\[zstd\]'"):
        read(path)


def test_dictionaries_are_cached_for_the_last_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: OrderedDict[Hashable, zstd_frames.Dictionary] = OrderedDict()
    monkeypatch.setattr(zstd_frames, "kept_dictionaries", kept)
    monkeypatch.setattr(zstd_frames, "MOST_DICTIONARIES", 3 * (8192 + len(CONTENT)))
    paths = [
        write(tmp_path / f"{number}.warc.zst", skippable(CONTENT, 0x5D), *with_dictionary(RECORDS))
        for number in range(5)
    ]
    found = [read(path)[0][3] for path in paths]
    assert len(kept) == 3
    # Another file at the same path has another dictionary.
    write(paths[4], skippable(DICTIONARIES[1].dict_content, 0x5D), *with_dictionary(RECORDS, DICTIONARIES[1]))
    assert [body(path, read(path)[0][3]) for path in paths] == BODIES[3:] * 5
    with pytest.raises(DamageError):
        body(paths[0], found[0]._replace(offset=found[0].offset + 1))
