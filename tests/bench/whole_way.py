"""Benchmark from end to end: index an archive, read its first and deepest page, harvest it into files."""

import os
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

from lxml import etree
from sqlalchemy import func, select

from oai.database import open_database
from oai.settings import load_settings
from oai.vocabulary import OAI_NAMESPACE
from provider.models import Document
from tests.bench.measuring import Measured, mb, memory, read_with_warcio, run, zatva
from tests.bench.warcs import Shape, write_warcs
from tests.end_to_end.processes import running

_TOKEN = f"{{{OAI_NAMESPACE}}}resumptionToken"


def measure(*, documents: int) -> None:
    """Print the figures, one a line."""
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        environment = {
            **os.environ,
            "ZATVA_DATA": str(root / "data"),
            "ZATVA_PROVIDER__RECORDS_PER_ANSWER": "500",
        }
        files = list(write_warcs(root / "archive", documents, Shape.TINY_PAGES))
        size = sum(file.stat().st_size for file in files)
        _say("archive", f"{documents:,} documents in {len(files)} files of {size / 1e6:.0f} MB in total")
        reading = read_with_warcio(environment, files)
        _say("warcio", f"{documents / reading.seconds:,.0f} records/s, one process that only iterates")
        with open_database(load_settings(data=root / "data", database_url=None)):
            _measure_with_database(environment, root, documents, reading)


def _measure_with_database(
    environment: Mapping[str, str], root: Path, documents: int, reading: Measured
) -> None:
    index = run(environment, *zatva("provider", "index", str(root / "archive"), "--quiet"))
    _say(
        "index",
        f"{documents / index.seconds:,.0f} documents/s, {reading.seconds / index.seconds:.2f} x the speed of "
        f"warcio; largest process {mb(index.peak)}",
    )
    _wait_until_due(root)
    with running(
        environment, root / "log", "provider", "serve", "--port", "0", ready="provider at", fresh=True
    ) as (
        provider,
        base_url,
    ):
        for name, seconds in _pages(base_url, documents):
            _say(name, f"{seconds * 1000:.1f} ms (median of 15)")
        harvest = run(environment, *zatva("harvest", base_url, "--out", str(root / "out"), "--quiet"))
        _say("harvest", f"{documents / harvest.seconds:,.0f} records/s; harvester {mb(harvest.peak)}")
        again = run(environment, *zatva("harvest", base_url, "--out", str(root / "out"), "--full", "--quiet"))
        _say("harvest again", f"{documents / again.seconds:,.0f} records/s, nothing changed")
        _say("provider", f"peak memory {mb(memory(provider.pid, 'VmHWM'))}")
    stored = sum(1 for _ in (root / "out").rglob("*.xml"))
    _say("stored", f"{stored:,} files for {documents:,} documents")


def _wait_until_due(root: Path) -> None:
    """Wait until the records are listed: they are dated seconds ahead, so that no harvester misses one."""
    with (
        open_database(load_settings(data=root / "data", database_url=None)) as database,
        database.session() as session,
    ):
        latest = session.scalar(select(func.max(Document.datestamp)))
        while not session.scalar(select(func.clock_timestamp() >= latest)):
            time.sleep(0.1)


def _pages(base_url: str, documents: int) -> Iterator[tuple[str, float]]:
    """Return times of the first and the last full page, found by following the tokens of ListIdentifiers."""
    first = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
    yield "first page", _median(base_url, first)
    deepest, arguments = first, first
    for _ in range(documents // 500):
        token = _fetch(base_url, arguments).find(f".//{_TOKEN}")
        if token is None or not token.text:
            break
        deepest, arguments = arguments, {"verb": "ListRecords", "resumptionToken": token.text}
    yield "deepest full page", _median(base_url, deepest)


def _median(base_url: str, arguments: Mapping[str, str]) -> float:
    times = []
    for _ in range(15):
        begun = time.perf_counter()
        _fetch(base_url, arguments)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def _fetch(base_url: str, arguments: Mapping[str, str]) -> etree._Element:
    with urllib.request.urlopen(f"{base_url}?{urlencode(arguments)}") as answer:  # noqa: S310 our own server
        return etree.fromstring(answer.read())


def _say(name: str, text: str) -> None:
    sys.stdout.write(f"{name:18} {text}\n")
    sys.stdout.flush()
