"""Only the damaged record is lost, and the damage is reported with its offset."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from oai.failures import Failure, FailureCode
from provider.reading.captures import Capture, Ignored, read_captures
from provider.reading.framing import FramingProblem
from tests.provider.archives import (
    Page,
    arc_info,
    arc_record,
    offsets,
    packed,
    warc_other,
    warc_record,
    write_archive,
)

PAGES = [Page(url=f"http://a.example/{number}", body=b"%d" % number * 3000) for number in range(4)]
NAMES = ["x.warc", "x.warc.gz", "x.warc.zst", "x.arc", "x.arc.gz"]


def http_with_length(page: Page, length: int) -> Page:
    """Return the page with this Content-Length in its HTTP header."""
    return replace(page, http_headers=f"Content-Length: {length}\r\n")


PACKED_GARBAGE = gzip.compress(b"garbage\n", mtime=0)
SIZED = http_with_length(PAGES[1], len(PAGES[1].body))


def records(name: str) -> list[bytes]:
    if ".arc" in name:
        return [arc_info(), *map(arc_record, PAGES)]
    return [warc_other("warcinfo"), *map(warc_record, PAGES)]


def read(path: Path) -> tuple[list[Capture], list[FramingProblem]]:
    with path.open("rb") as file:
        found = list(read_captures(file))
    return (
        [item for item in found if isinstance(item, Capture)],
        [item for item in found if isinstance(item, FramingProblem)],
    )


@pytest.mark.parametrize("name", NAMES)
def test_all_records_of_an_intact_file_are_read_with_their_offsets(tmp_path: Path, name: str) -> None:
    path = write_archive(tmp_path / name, records(name))
    captures, problems = read(path)
    assert [(one.url, one.offset) for one in captures] == [
        (page.url, place) for page, place in zip(PAGES, offsets(path, records(name))[1:], strict=False)
    ]
    assert problems == []


@pytest.mark.parametrize("name", NAMES)
def test_garbage_between_records_is_reported_and_skipped(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    parts = [packed(path, record) for record in records(name)]
    path.write_bytes(b"".join([*parts[:2], b"\x00garbage\nWARC or not\n", *parts[2:]]))
    captures, problems = read(path)
    assert [one.url for one in captures] == [page.url for page in PAGES]
    assert [problem.offset for problem in problems] == [len(parts[0] + parts[1])]
    assert "21 bytes not read" in problems[0].reason


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("left", [10, 60, 1000])
def test_the_records_before_the_end_of_a_truncated_file_are_read(
    tmp_path: Path, name: str, left: int
) -> None:
    path = tmp_path / name
    parts = [packed(path, record) for record in records(name)]
    # A gzipped record of this data is shorter than 1,000 bytes.
    cut = min(left, len(parts[-1]) - 9)
    path.write_bytes(b"".join(parts[:-1]) + parts[-1][:cut])
    captures, problems = read(path)
    assert [one.url for one in captures] == [page.url for page in PAGES[:-1]]
    assert [problem.offset for problem in problems] == [len(b"".join(parts[:-1]))]


@pytest.mark.parametrize("break_", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 4096, *range(65_525, 65_537)])
def test_a_record_that_begins_within_a_line_is_found(tmp_path: Path, size: int, break_: bytes) -> None:
    """This happens after zeros inserted by a file system, also if a long line is read in two parts."""
    whole = [record.replace(b"WARC/1.0\r\n", b"WARC/1.0" + break_, 1) for record in records("x.warc")]
    path = write_archive(tmp_path / "x.warc", [*whole[:2], b"\x00" * size, *whole[2:]])
    captures, problems = read(path)
    assert [one.url for one in captures] == [page.url for page in PAGES]
    assert [problem.offset for problem in problems] == [len(whole[0] + whole[1])]


@pytest.mark.parametrize("left", [400, 2000])
def test_a_record_directly_after_a_truncated_one_is_found(tmp_path: Path, left: int) -> None:
    whole = records("x.warc")
    path = write_archive(tmp_path / "x.warc", [*whole[:2], whole[2][:left], *whole[3:]])
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[2].url, PAGES[3].url]
    assert [problem.offset for problem in problems] == [len(whole[0] + whole[1])]


def test_a_version_within_a_line_of_text_is_not_read_as_a_record(tmp_path: Path) -> None:
    whole = records("x.warc")
    text = b"\x00the format is WARC/1.0\r\nand not another: it is old\r\n"
    path = write_archive(tmp_path / "x.warc", [*whole[:2], text, *whole[2:]])
    captures, problems = read(path)
    assert [one.url for one in captures] == [page.url for page in PAGES]
    assert [problem.offset for problem in problems] == [len(whole[0] + whole[1])]


@pytest.mark.parametrize("name", ["x.warc.gz", "x.warc.zst", "x.arc.gz"])
@pytest.mark.parametrize("place", ["begin", "middle", "checksum"])
def test_only_the_record_of_a_damaged_gzip_member_or_zstd_frame_is_lost(
    tmp_path: Path, name: str, place: str
) -> None:
    path = tmp_path / name
    parts = [packed(path, record) for record in records(name)]
    at = {"begin": 11, "middle": len(parts[2]) // 2, "checksum": len(parts[2]) - (6 if "gz" in name else 2)}[
        place
    ]
    garbled = bytearray(parts[2])
    garbled[at] ^= 0xFF
    path.write_bytes(b"".join([*parts[:2], bytes(garbled), *parts[3:]]))
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[2].url, PAGES[3].url]
    assert [problem.offset for problem in problems] == [len(parts[0] + parts[1])]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", [-7, 7, 5000])
def test_only_the_record_with_a_wrong_length_is_lost(tmp_path: Path, name: str, error: int) -> None:
    whole = records(name)
    length = len(PAGES[1].http) + error
    write = arc_record if ".arc" in name else warc_record
    whole[2] = write(PAGES[1], length=length)
    path = write_archive(tmp_path / name, whole)
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[2].url, PAGES[3].url]
    assert [problem.offset for problem in problems] == [offsets(path, whole)[2]]


@pytest.mark.parametrize("length", [-1, "abc", "", "9" * 30])
def test_only_the_record_with_an_invalid_length_is_lost(tmp_path: Path, length: int | str) -> None:
    whole = [arc_info(), arc_record(PAGES[0], length=length), arc_record(PAGES[1])]
    captures, problems = read(write_archive(tmp_path / "x.arc", whole))
    assert [one.url for one in captures] == [PAGES[1].url]
    assert [problem.offset for problem in problems] == [len(whole[0])]


@pytest.mark.parametrize("name", ["x.warc.gz", "x.arc.gz"])
def test_only_the_beginning_of_an_invalid_length_is_reported(tmp_path: Path, name: str) -> None:
    header = records(name)[1].partition(b"\n")[0].rpartition(b" ")[0]
    if ".warc" in name:
        header = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length:"
    broken = header + b" " + b"9" * 50_000 + b"\r\n\r\n"
    _, [problem] = read(write_archive(tmp_path / name, [broken]))
    assert "Content-Length" in problem.reason or "ARC header line" in problem.reason
    assert len(problem.reason) < 150


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    assert read(write_archive(tmp_path / "x.warc", [])) == (
        [],
        [FramingProblem.of(FailureCode.ARCHIVE_NOT_ARCHIVE, "the file is empty")],
    )


@pytest.mark.parametrize("content", [b"GIF89a\n" * 100, b"\x00" * 5000, gzip.compress(b"hello", mtime=0)])
def test_a_file_that_is_not_an_archive_file_is_reported_once(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(content)
    captures, problems = read(path)
    assert captures == []
    assert [problem.offset for problem in problems] == [0]
    assert f"{len(content):,} bytes not read" in problems[0].reason
    assert problems[0].failure == Failure(code=FailureCode.ARCHIVE_NOT_ARCHIVE, facts={"bytes": len(content)})


@pytest.mark.parametrize(
    ("content", "code", "facts"),
    [
        (b"garbage\n", FailureCode.ARCHIVE_RECORD_BROKEN, {"bytes": 8}),
        (
            gzip.compress(b"garbage\n", mtime=0)[:-4] + b"xxxx",
            FailureCode.ARCHIVE_RECORD_BROKEN,
            {"bytes": 28},
        ),
        (packed(Path("x.gz"), warc_record(PAGES[1]))[:-9], FailureCode.ARCHIVE_RECORD_TRUNCATED, None),
        (
            gzip.compress(arc_record(Page(url="http://a.example/"), length=999), mtime=0),
            FailureCode.ARCHIVE_RECORD_TRUNCATED,
            None,
        ),
        (gzip.compress(warc_record(Page(url="no url")), mtime=0), FailureCode.ARCHIVE_RECORD_INVALID, {}),
        (gzip.compress(b"".join(map(warc_record, PAGES)), mtime=0), FailureCode.ARCHIVE_RECORDS_JOINED, {}),
        (
            gzip.compress(warc_record(SIZED, length=len(SIZED.http) + 7), mtime=0),
            FailureCode.ARCHIVE_RECORD_LENGTH,
            {},
        ),
    ],
)
def test_each_problem_has_its_failure_code_and_facts(
    tmp_path: Path, content: bytes, code: FailureCode, facts: dict[str, int] | None
) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(gzip.compress(warc_record(PAGES[0])) + content)
    (problem,) = read(path)[1]
    assert problem.failure.code == code
    assert facts is None or problem.failure.facts == facts


def test_only_the_first_record_of_a_shared_gzip_member_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(gzip.compress(b"".join(map(warc_record, PAGES))))
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url]
    assert "warcio recompress" in problems[0].reason


@pytest.mark.parametrize("at", [20, 300, -5])
def test_a_record_over_several_gzip_members_is_reported_as_joined_records(tmp_path: Path, at: int) -> None:
    path = tmp_path / "x.warc.gz"
    before, split, *after = map(warc_record, PAGES)
    parts = [gzip.compress(one, mtime=0) for one in (before, split[:at], split[at:], *after)]
    path.write_bytes(b"".join(parts))
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[2].url, PAGES[3].url]
    assert [(one.offset, one.failure.code) for one in problems] == [
        (len(parts[0]), FailureCode.ARCHIVE_RECORDS_JOINED)
    ]


def test_a_file_compressed_regardless_of_record_boundaries_is_reported_once(tmp_path: Path) -> None:
    """`bgzip` compresses files in this way."""
    path = tmp_path / "x.warc.gz"
    content = b"".join(map(warc_record, PAGES))
    pieces = (content[place : place + 4000] for place in range(0, len(content), 4000))
    path.write_bytes(b"".join(gzip.compress(piece, mtime=0) for piece in pieces))
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url]
    assert [one.failure.code for one in problems] == [FailureCode.ARCHIVE_RECORDS_JOINED]


def test_members_after_a_shared_gzip_member_are_read_or_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    joined = gzip.compress(b"".join(map(warc_record, PAGES[:2])), mtime=0)
    broken = gzip.compress(b"X" + warc_record(PAGES[2]), mtime=0)
    path.write_bytes(joined + broken + gzip.compress(b" " + warc_record(PAGES[3]), mtime=0))
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[3].url]
    assert f"({len(broken):,} bytes of members in which no record begins not read)" in problems[0].reason


def test_an_empty_gzip_member_does_not_continue_a_truncated_record(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(gzip.compress(warc_record(PAGES[0])[:-30], mtime=0) + gzip.compress(b"", mtime=0))
    captures, problems = read(path)
    assert captures == []
    assert problems[0].failure.code is FailureCode.ARCHIVE_RECORD_TRUNCATED


def test_garbage_after_records_that_share_a_gzip_member_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    joined, last = gzip.compress(b"".join(map(warc_record, PAGES))), packed(path, warc_record(SIZED))
    path.write_bytes(joined + b"garbage" + last)
    captures, problems = read(path)
    assert [one.offset for one in captures] == [0, len(joined) + 7]
    assert [one.failure.code for one in problems] == [
        FailureCode.ARCHIVE_RECORDS_JOINED,
        FailureCode.ARCHIVE_RECORD_BROKEN,
    ]


def test_a_header_without_end_is_reported_and_the_next_record_read(tmp_path: Path) -> None:
    path = tmp_path / "x.warc"
    path.write_bytes(b"WARC/1.0\r\n" + b"x: y\r\n" * 400_000 + warc_record(PAGES[0]))
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url]
    assert "the WARC header is longer" in problems[0].reason


def test_an_empty_gzip_member_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(packed(path, warc_record(PAGES[0])) + gzip.compress(b"", mtime=0))
    with path.open("rb") as file:
        assert list(read_captures(file))[1:] == [Ignored(kind="empty")]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", [-2, 7, 5000])
def test_a_record_whose_content_length_proves_it_complete_is_kept_and_reported(
    tmp_path: Path, name: str, error: int
) -> None:
    page = http_with_length(PAGES[3], len(PAGES[3].body))
    write = arc_record if ".arc" in name else warc_record
    whole = records(name)
    for place in (2, 4):
        path = write_archive(
            tmp_path / name, [*whole[:place], write(page, length=len(page.http) + error), *whole[place + 1 :]]
        )
        captures, problems = read(path)
        assert [one.url for one in captures][place - 1] == page.url
        assert captures[place - 1].length == len(page.body)
        assert len(captures) == 4
        (problem,) = problems
        assert problem.offset == offsets(path, whole)[place]
        assert "and was indexed" in problem.reason


@pytest.mark.parametrize("scheme", ["http", "https", "ftp"])
@pytest.mark.parametrize("error", [2, 3, 4])
def test_a_length_that_reaches_into_the_next_url_loses_no_record(
    tmp_path: Path, scheme: str, error: int
) -> None:
    pages = [
        http_with_length(Page(url=f"{scheme}://a.example/{n}", body=b"body"), len(b"body")) for n in range(3)
    ]
    whole = [arc_info(), *map(arc_record, pages)]
    whole[2] = arc_record(pages[1], length=len(pages[1].http) + error)
    path = write_archive(tmp_path / "x.arc", whole)
    captures, problems = read(path)
    assert [(one.url, one.length) for one in captures] == [(page.url, len(page.body)) for page in pages]
    assert [(one.offset, one.failure.code) for one in problems] == [
        (offsets(path, whole)[2], FailureCode.ARCHIVE_RECORD_LENGTH)
    ]


def test_without_content_length_only_the_record_with_too_large_a_length_is_lost(tmp_path: Path) -> None:
    whole = records("x.arc")
    whole[2] = arc_record(PAGES[1], length=len(PAGES[1].http) + 2)
    whole[0] = arc_info().replace(b" 67\n", b" 68\n").removesuffix(b"\n")
    path = write_archive(tmp_path / "x.arc", whole)
    captures, problems = read(path)
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[2].url, PAGES[3].url]
    assert [one.offset for one in problems] == [0, offsets(path, whole)[2]]


def test_records_without_line_breaks_between_them_are_read(tmp_path: Path) -> None:
    pages = [replace(page, body=b"text\nh") for page in PAGES]
    whole = [arc_info().strip(), *(arc_record(page).removesuffix(b"\n") for page in pages)]
    whole[0] = whole[0].replace(b" 67\n", b" 66\n")
    captures, problems = read(write_archive(tmp_path / "x.arc", whole))
    assert [(one.url, one.length) for one in captures] == [(page.url, 6) for page in pages]
    assert problems == []


@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz", "x.warc.zst"])
def test_a_damaged_record_with_a_wrong_digest_is_not_kept(tmp_path: Path, name: str) -> None:
    page = http_with_length(PAGES[1], len(PAGES[1].body) - 1)
    whole = records(name)
    whole[2] = warc_record(page, length=len(page.http) + 7)
    captures, problems = read(write_archive(tmp_path / name, whole))
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[2].url, PAGES[3].url]
    assert len(problems) == 1


@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz", "x.warc.zst"])
@pytest.mark.parametrize("stray", [b"\0\0", b"junk that nobody knows"])
def test_stray_bytes_after_a_record_with_a_digest_do_not_lose_it(
    tmp_path: Path, name: str, stray: bytes
) -> None:
    whole = records(name)
    whole[2] = whole[2].removesuffix(b"\r\n\r\n") + stray + b"\r\n\r\n"
    captures, problems = read(write_archive(tmp_path / name, whole))
    assert [one.url for one in captures] == [page.url for page in PAGES]
    assert len(problems) == 1
    assert "and was indexed" in problems[0].reason


@pytest.mark.parametrize("name", ["x.arc", "x.arc.gz"])
def test_a_record_without_digest_before_stray_bytes_is_lost(tmp_path: Path, name: str) -> None:
    whole = records(name)
    whole[2] = whole[2].removesuffix(b"\n") + b"\0\0\n"
    captures, _ = read(write_archive(tmp_path / name, whole))
    assert [one.url for one in captures] == [PAGES[0].url, PAGES[2].url, PAGES[3].url]


def test_records_larger_than_the_buffered_part_are_read(tmp_path: Path) -> None:
    for name in NAMES:
        write = arc_record if ".arc" in name else warc_record
        large = Page(url="http://a.example/large", body=bytes(range(256)) * 4000, digest=".arc" not in name)
        path = write_archive(tmp_path / name, [write(large), write(PAGES[0])])
        captures, problems = read(path)
        assert [(one.url, one.length, one.digest) for one in captures] == [
            (page.url, len(page.body), page.payload_digest) for page in (large, PAGES[0])
        ]
        assert problems == []


@pytest.mark.parametrize("name", ["x.arc", "x.arc.gz"])
def test_a_content_type_may_have_a_long_parameter_with_blanks_and_semicolons(
    tmp_path: Path, name: str
) -> None:
    record = arc_record(replace(PAGES[1], mime_type="text/html;" + "a ;b " * 40))
    broken = arc_record(PAGES[0], length=7)
    captures, problems = read(write_archive(tmp_path / name, [broken, record, arc_record(PAGES[2])]))
    assert [one.url for one in captures] == [page.url for page in PAGES[1:3]]
    assert [problem.offset for problem in problems] == [0]
