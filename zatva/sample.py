"""A generated web archive for the demo: three domains, pages and pictures, as ARC and WARC files."""

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from oai.xml import escape

_HOSTS: Final = (
    "www.knihovna.example",
    "www.knihovna.example",
    "casopis.univerzita.example",
    "mesto.example",
)
_SUBJECTS: Final = ("almanac", "catalogue", "chronicle", "exhibition", "gazette", "map", "reading", "survey")
_FIRST_CAPTURE: Final = datetime(2024, 3, 1, 8, 0, tzinfo=UTC)
_PIXEL: Final = bytes.fromhex(
    "47494638396101000100800000ffffff00000021f90401000000002c00000000010001000002024401003b"
)


@dataclass(frozen=True, kw_only=True)
class Page:
    """One thing that a crawler would have fetched."""

    url: str
    captured: datetime
    content_type: str
    content: bytes


def write_archive(folder: Path, *, pages: int = 400, seed: int = 1) -> list[Path]:
    """Write an ARC and two WARC files with that many captures; the same seed gives the same archive."""
    folder.mkdir(parents=True, exist_ok=True)
    captures = list(_pages(pages, random.Random(seed)))  # noqa: S311 a sample, not a secret
    third = len(captures) // 3 + 1
    files = [folder / "sample-2024-01.arc", folder / "sample-2024-02.warc.gz", folder / "sample-2024-03.warc"]
    _write_arc(files[0], captures[:third])
    _write_warc(files[1], captures[third : 2 * third], gzip=True)
    _write_warc(files[2], captures[2 * third :], gzip=False)
    return files


def _pages(count: int, chance: random.Random) -> Iterator[Page]:
    for number in range(count):
        host, subject = chance.choice(_HOSTS), chance.choice(_SUBJECTS)
        captured = _FIRST_CAPTURE + timedelta(minutes=7 * number)
        if number % 8 == 7:  # noqa: PLR2004 about one in eight is a picture
            yield Page(
                url=f"http://{host}/images/{subject}-{number}.gif",
                captured=captured,
                content_type="image/gif",
                content=_PIXEL,
            )
            continue
        title = f"{subject.title()} no. {number} & its readers"
        body = f"<!doctype html><title>{escape(title)}</title><h1>{escape(title)}</h1>"
        yield Page(
            url=f"http://{host}/{subject}/{number}.html?lang=en&view={chance.randrange(3)}",
            captured=captured,
            content_type="text/html; charset=utf-8",
            content=body.encode(),
        )


def _write_warc(path: Path, pages: list[Page], *, gzip: bool) -> None:
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=gzip)
        writer.write_record(writer.create_warcinfo_record(path.name, {"software": "Zatva's sample"}))
        for page in pages:
            record = writer.create_warc_record(
                page.url,
                "response",
                payload=io.BytesIO(page.content),
                http_headers=_http_headers(page),
                warc_headers_dict={"WARC-Date": page.captured.strftime("%Y-%m-%dT%H:%M:%SZ")},
            )
            writer.write_record(record)
            record.raw_stream.close()  # warcio put the content into a file of its own for the digest


def _http_headers(page: Page) -> StatusAndHeaders:
    headers = [("Content-Type", page.content_type), ("Content-Length", str(len(page.content)))]
    return StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")


def _write_arc(path: Path, pages: list[Page]) -> None:
    about = b"1 0 Zatva\nURL IP-address Archive-date Content-type Archive-length\n\n"
    with path.open("wb") as file:
        stamp = pages[0].captured.strftime("%Y%m%d%H%M%S")
        file.write(
            f"filedesc://{path.name} 127.0.0.1 {stamp} text/plain {len(about)}\n".encode() + about + b"\n"
        )
        for page in pages:
            answer = _http_headers(page).to_bytes() + page.content
            kind = page.content_type.split(";")[0]
            stamp = page.captured.strftime("%Y%m%d%H%M%S")
            file.write(f"{page.url} 127.0.0.1 {stamp} {kind} {len(answer)}\n".encode() + answer + b"\n")
