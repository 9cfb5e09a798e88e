"""Hostile and badly damaged archive files are read in proportion to their size."""

import gzip
import io
from pathlib import Path

import pytest

from provider.reading.captures import Capture, read_captures
from provider.reading.content import Content, PlainBytes
from provider.reading.framing import FramingProblem
from tests.provider.archives import Page, warc_record, write_archive
from tests.provider.reading.test_framing import PAGES, read


@pytest.mark.parametrize("break_", [b"\n", b"\r\n"])
@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz"])
def test_any_number_of_empty_lines_may_follow_a_record(tmp_path: Path, name: str, break_: bytes) -> None:
    ends = warc_record(PAGES[0]) + break_ * 200_000
    captures, problems = read(write_archive(tmp_path / name, [ends, warc_record(PAGES[1])]))
    assert [one.url for one in captures] == [page.url for page in PAGES[:2]]
    assert problems == []


def test_empty_lines_are_passed_over_many_at_a_time() -> None:
    content = Content(PlainBytes(io.BytesIO(b"a\n" + b"\n" * 1_000_000 + b"b\n"), 0))
    lines = list(content.lines_from(0))
    assert (lines[0], lines[-1][1]) == ((0, b"a\n"), b"b\n")
    assert len(lines) < 100


def test_lines_of_semicolons_after_damage_do_not_hang_the_search_for_records(tmp_path: Path) -> None:
    line = b"a: x 1234567890 " + b";" * 60_000 + b"\n"
    damaged = warc_record(PAGES[0], length=5)
    captures, problems = read(
        write_archive(tmp_path / "x.warc", [damaged, line * 400, warc_record(PAGES[1])])
    )
    assert [one.url for one in captures] == [PAGES[1].url]
    assert [problem.offset for problem in problems] == [0]


class CountedBytes(io.BytesIO):
    """A file that counts the bytes that are read from it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        content = super().read(size)
        self.count += len(content)
        return content


@pytest.mark.parametrize("http_length", ["", "222222222"])
def test_not_every_record_that_declares_too_much_is_read_to_the_end_of_the_file(http_length: str) -> None:
    fields = f"Content-Length: {http_length}\r\n" if http_length else ""
    page = Page(url="http://a.example/", mime_type="text/plain", digest=False, http_headers=fields)
    model, number = warc_record(page, length=111111111), 2000
    file = CountedBytes()
    for left in range(number, 0, -1):
        # The content ends within the last record but one.
        end = b"%09d" % max(len(model) * left - 500, 1)
        file.write(model.replace(b"111111111", end).replace(b"222222222", end))
    file.seek(0)
    found = list(read_captures(file))
    assert sum(isinstance(item, FramingProblem) for item in found) == number
    assert file.count < 5 * number * 8192


def test_damaged_data_with_many_beginnings_of_gzip_members_are_read_about_once() -> None:
    members = gzip.compress(warc_record(PAGES[0]), mtime=0)[:-8] + b"\x1f\x8b\x08" * 2000 + b"\0" * (2 << 20)
    file = CountedBytes(members + gzip.compress(warc_record(PAGES[1])))
    found = list(read_captures(file))
    assert [item.url for item in found if isinstance(item, Capture)] == [PAGES[1].url]
    assert file.count < 2 * 2000 * 8192 + 4 * len(file.getvalue())


def test_not_every_damaged_gzip_member_within_another_one_is_read_to_the_end_of_the_file() -> None:
    def stored(length: int) -> bytes:
        return b"\0" + length.to_bytes(2, "little") + (length ^ 0xFFFF).to_bytes(2, "little")

    magic = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    record = warc_record(PAGES[0], length=10**9)[:200]
    step = len(magic + stored(0) + record)
    # Each member begins within the first block of the one before, and continues with the same blocks.
    block = b"".join(magic + stored(step * left - 15) + record for left in range(300, 0, -1))
    file = CountedBytes(magic + (stored(len(block)) + block) * 60)
    assert not [item for item in read_captures(file) if isinstance(item, Capture)]
    assert file.count < 50 * len(file.getvalue())


def test_versions_in_line_after_line_do_not_each_begin_a_header_of_a_megabyte() -> None:
    file = CountedBytes(b"WARC/1.0\r\n" * 2000 + b"x" * (1 << 20))
    problems = list(read_captures(file))
    assert len(problems) == 2000
    assert file.count < 25 * 2000 * 8192


def test_not_every_record_with_a_wrong_digest_is_read_to_where_its_http_header_ends_it() -> None:
    page = Page(url="http://a.example/", mime_type=None, http_headers="Content-Length: 222222222\r\n")
    model, number = warc_record(page, length=len(page.http) - len(page.body)), 1500
    model = model.replace(page.payload_digest.encode(), b"sha1:" + b"A" * 32)
    payload = model.index(page.body)
    file = CountedBytes()
    for left in range(number, 0, -1):
        # Each of them ends exactly before the last record.
        file.write(model.replace(b"222222222", b"%09d" % (len(model) * left - payload - 4)))
    file.write(warc_record(PAGES[0]))
    file.seek(0)
    found = list(read_captures(file))
    assert [item.url for item in found if isinstance(item, Capture)] == [PAGES[0].url]
    assert file.count < 8 * number * 8192
