"""Samples for the demo: an archive of three domains as ARC and WARC files, its titles, and past harvests."""

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import insert
from sqlalchemy.orm import Session
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from harvester.models import History
from harvester.vocabulary import MADE_UP, RunStatus
from oai.failures import FailureCode
from oai.xml import escape
from provider.titles.entries import TitleEntry

_HOSTS: Final = (
    "www.knihovna.example",
    "www.knihovna.example",
    "casopis.univerzita.example",
    "mesto.example",
)
_SEED: Final = 1
_SUBJECTS: Final = ("almanac", "catalogue", "chronicle", "exhibition", "gazette", "map", "reading", "survey")
_FIRST_CAPTURE: Final = datetime(2024, 3, 1, 8, 0, tzinfo=UTC)
_PIXEL: Final = bytes.fromhex(
    "47494638396101000100800000ffffff00000021f90401000000002c00000000010001000002024401003b"
)
TITLES: Final = tuple(
    TitleEntry.model_validate(title)
    for title in (
        {
            "key": "knihovna",
            "name": "Městská knihovna",
            "alternative_names": ["City Library"],
            "publisher": "City Library",
            "annotation": "Catalogue, readings and exhibitions of a public library.",
            "languages": ["cze", "eng"],
            "subjects": [{"name": "Library science", "number": 12}],
            "keywords": ["libraries", "readings"],
            "collections": ["Culture"],
            "licence": "CC BY 4.0",
            "seeds": [{"url": "http://www.knihovna.example/", "main": True}],
        },
        {
            "key": "casopis",
            "name": "Časopis univerzity",
            "alternative_names": ["University Magazine"],
            "publisher": "University Press",
            "annotation": "A magazine of the university's departments. Its exhibitions show works of others.",
            "languages": ["cze"],
            "issn": "1234-5679",
            "subjects": [{"name": "Education", "number": 22}],
            "keywords": ["universities"],
            "licence": "CC BY-NC-ND 4.0",
            "contract_from": "2024-01-01",
            "seeds": [
                {"url": "http://casopis.univerzita.example/", "main": True},
                {"url": "http://casopis.univerzita.example/exhibition/", "kind": "carve-out"},
            ],
        },
        {
            "key": "mesto",
            "name": "Město",
            "alternative_names": ["The Town"],
            "publisher": "Town Office",
            "annotation": "News, maps and surveys of a town.",
            "languages": ["cze"],
            "subjects": [{"name": "Public administration", "number": 7}],
            "keywords": ["towns"],
            "collections": ["Culture"],
            "seeds": [{"url": "http://mesto.example/", "main": True}],
        },
        {
            "key": "kronika",
            "name": "Kronika města",
            "publisher": "Town Office",
            "annotation": "The town's chronicle, whose contract has ended.",
            "languages": ["cze"],
            "state": "terminated",
            "public": False,
            "access": "reading room",
            "contract_from": "2020-01-01",
            "contract_to": "2023-12-31",
            "seeds": [{"url": "http://mesto.example/chronicle/", "main": True}],
        },
    )
)
"""Titles of the sites: one with a carve-out, and one that is not public, below the seed of another."""


@dataclass(frozen=True, kw_only=True)
class SamplePage:
    """A generated capture."""

    url: str
    captured: datetime
    content_type: str
    content: bytes


def write_archive(folder: Path, *, pages: int = 400) -> list[Path]:
    """Write an ARC and two WARC files with `pages` captures, always the same."""
    folder.mkdir(parents=True, exist_ok=True)
    captures = list(_pages(pages, random.Random(_SEED)))  # noqa: S311 a sample, not a secret
    third = len(captures) // 3 + 1
    files = [folder / "sample-2024-01.arc", folder / "sample-2024-02.warc.gz", folder / "sample-2024-03.warc"]
    _write_arc(files[0], captures[:third])
    _write_warc(files[1], captures[third : 2 * third], gzip=True)
    _write_warc(files[2], captures[2 * third :], gzip=False)
    return files


def _pages(count: int, chance: random.Random) -> Iterator[SamplePage]:
    for number in range(count):
        host, subject = chance.choice(_HOSTS), chance.choice(_SUBJECTS)
        captured = _FIRST_CAPTURE + timedelta(minutes=7 * number)
        if number % 8 == 7:  # noqa: PLR2004 about one in eight is an image
            yield SamplePage(
                url=f"http://{host}/images/{subject}-{number}.gif",
                captured=captured,
                content_type="image/gif",
                content=_PIXEL,
            )
            continue
        title = f"{subject.title()} no. {number} & its readers"
        body = f"<!doctype html><title>{escape(title)}</title><h1>{escape(title)}</h1>"
        yield SamplePage(
            url=f"http://{host}/{subject}/{number}.html?lang=en&view={chance.randrange(3)}",
            captured=captured,
            content_type="text/html; charset=utf-8",
            content=body.encode(),
        )


def _write_warc(path: Path, pages: list[SamplePage], *, gzip: bool) -> None:
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
            record.raw_stream.close()  # warcio spooled the content to a temporary file for the digest


def _http_headers(page: SamplePage) -> StatusAndHeaders:
    headers = [("Content-Type", page.content_type), ("Content-Length", str(len(page.content)))]
    return StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")


def _write_arc(path: Path, pages: list[SamplePage]) -> None:
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


DAYS: Final = 75
MARK: Final = "generated by the demo to fill the plots: this harvest never took place"
_WARNING: Final = f"This run was {MARK}."
_PAGE: Final = 50
_PAGE_BYTES: Final = 42_000
_SAMPLES: Final = 6
_CLOSED: Final = "the connection was closed in the middle of an answer"
_BAD_NIGHTS: Final = {
    9: (RunStatus.FAILED, "no answer within 120 seconds", FailureCode.TIMEOUT),
    10: (RunStatus.FAILED, "HTTP status 503 after 6 tries", FailureCode.SERVER_BUSY),
    23: (RunStatus.INCOMPLETE, _CLOSED, FailureCode.DISCONNECTED),
    41: (RunStatus.FAILED, "no route to host", FailureCode.CONNECTION_REFUSED),
    58: (RunStatus.INCOMPLETE, _CLOSED, FailureCode.DISCONNECTED),
}
"""By the number of the night."""
_VERDICTS: Final = {RunStatus.FAILED: "failed", RunStatus.INCOMPLETE: "partial"}
"""All other runs are complete."""


def write_past(session: Session, repository_id: int, now: datetime) -> None:
    """Write a run for each night before `now`, always the same, in one statement."""
    chance = random.Random(_SEED)  # noqa: S311 a sample, not a secret
    session.execute(insert(History).values(list(_nights(repository_id, now, chance))))


def _nights(repository_id: int, now: datetime, chance: random.Random) -> Iterator[dict[str, Any]]:
    tonight = now.replace(hour=2, minute=30, second=0, microsecond=0)
    for night in range(DAYS):
        start = tonight - timedelta(days=DAYS - night)
        status, reason, code = _BAD_NIGHTS.get(night, (RunStatus.COMPLETED, None, None))
        # Few records are added at weekends, and the number grows slightly each week.
        busy = 0.2 if start.weekday() in {5, 6} else 1.0
        new = round(busy * chance.uniform(0.6, 1.4) * (120 + 6 * night))
        if status is RunStatus.FAILED or (reason is None and chance.random() < 1 / 12):
            new = 0
        if status is RunStatus.COMPLETED and not new:
            status = RunStatus.NO_CHANGES
        yield {
            "repository_id": repository_id,
            "metadata_prefix": "oai_dc",
            "status": status.value,
            "verdict": _VERDICTS.get(status, "complete"),
            "failure_reason": None if reason is None else f"{reason} ({MARK})",
            "failure_code": code.value if code else None,
            "warnings": [_WARNING],
            "host": MADE_UP,
            **_course(start, new, chance),
        }


def _course(start: datetime, new: int, chance: random.Random) -> dict[str, Any]:
    """Return the counts and times of a run that begins at `start` and has `new` new records."""
    updated, deleted = round(new * chance.uniform(0, 0.3)), round(new * chance.uniform(0, 0.05))
    records = new + updated + deleted
    requests = records // _PAGE + 1
    seconds = requests * chance.uniform(0.8, 1.6) + 2
    ended = start + timedelta(seconds=seconds)
    return {
        "harvest_start_time": start,
        "harvest_end_time": ended,
        "announced": ended,
        "record_count": records,
        "new_count": new,
        "updated_count": updated,
        "deleted_count": deleted,
        "requests": requests,
        "bytes": requests * _PAGE_BYTES,
        "pace": _pace(seconds, records, requests),
    }


def _pace(seconds: float, records: int, requests: int) -> list[list[float]]:
    parts = [part / _SAMPLES for part in range(_SAMPLES + 1)]
    return [[seconds * part, round(records * part), round(requests * part)] for part in parts]
