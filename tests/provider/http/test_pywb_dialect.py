"""The dialect `pywb` answers as pywb itself does; skipped unless pywb's commands are in the path."""

import json
import random
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.indexing.indexer import IndexOptions, index_file
from tests.provider.archives import Page, warc_record, write_archive
from tests.provider.conftest import BASE_URL, small_pages

MANAGER = shutil.which("wb-manager")
"""A command of pywb, whose Python is beside it."""

ANSWERS = """
import json, subprocess, sys
from pywb.warcserver.handlers import IndexHandler
from pywb.warcserver.index.aggregator import SimpleAggregator
from pywb.warcserver.index.indexsource import FileIndexSource

def without_source(one):
    del one["source"], one["source-coll"]
    return one

def answer(source, query):
    given = {}
    for name, value in query:
        if name == "filter":
            given["filter"] = [*given.get("filter", []), value]
        else:
            given[name] = value
    fields = given.get("fields") or given.get("fl")
    try:
        write = IndexHandler.OUTPUTS[given.get("output", IndexHandler.DEF_OUTPUT)]
        captures = [without_source(one) for one in source(given)[0]]
        return "".join(write(iter(captures), fields.split(",") if fields else None, given)[1])
    except Exception:
        return None

archive = sys.argv[1]
index = archive + ".cdxj"
indexer = [sys.executable, "-m", "pywb.indexer.cdxindexer", "-j", "-s", archive]
with open(index, "w") as lines:
    subprocess.run(indexer, check=True, stdout=lines)
source = SimpleAggregator({"archive": FileIndexSource(index)})
json.dump([answer(source, query) for query in json.load(sys.stdin)], sys.stdout)
"""
"""A program that indexes a file and answers queries as pywb's CDX server does, None if it fails."""

HOSTS = ["a.example", "www.a.example", "sub.a.example", "ab.example", "p.example:8080", "1.2.3.4"]
PATHS = ["/", "", "/x", "/X/", "/x/y", "/x?b=2&a=1", "/x?a=1", "/dir/", "/%C4%8De", "/a%2Fb;c,d", "/q?"]
TYPES = ["text/html", "image/png", "application/json", "text/html; charset=utf-8"]
STATUSES = [200, 200, 200, 301, 404, 503]
YEARS = range(2006, 2013)


def pages(chance: random.Random) -> list[Page]:
    """Captures at different times: pywb orders those of one second by the text of their lines."""
    found = []
    for number in range(200):
        date = f"{chance.choice(YEARS)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
        found.append(
            Page(
                url=f"{chance.choice(['http', 'https'])}://{chance.choice(HOSTS)}{chance.choice(PATHS)}",
                date=f"{date}T{number // 60:02}:{number % 60:02}:00Z",
                body=f"page {chance.randint(1, 9)}".encode(),
                mime_type=chance.choice(TYPES),
                status=chance.choice(STATUSES),
                record_type=chance.choice(["response", "response", "response", "revisit"]),
            )
        )
    return found


FILTERS = [
    "status:20", "=status:200", "~status:[45]", "!status:200", "!=mime:text/html", "!~mime:image",
    "mime:html",
    "~url:https", "=s:404", "m:png", "!=mimetype:warc/revisit", "statuscode:3", "digest:A", "~timestamp:2008",
    "urlkey:example,a)/x", "~urlkey:.*y$", "a.example", "!image/png", "~.*404", "=filename:x.warc.gz",
    "offset:1", "original:8080", "=colour:red", "!colour:red", "~status:(", "d:", "", "!",
]  # fmt: skip
FIELDS = ["urlkey", "timestamp", "url", "mime", "status", "digest", "length", "offset", "filename"]


def query(chance: random.Random) -> list[tuple[str, str]]:
    """Return a query with random arguments of pywb."""
    url = f"{chance.choice(['', 'http://', 'https://'])}{chance.choice(HOSTS)}{chance.choice(PATHS)}"
    found = [("url", chance.choice([url, url, f"{url}*", f"*.{url}"]))]
    if chance.random() < 0.4:
        found.append(("matchType", chance.choice(["exact", "prefix", "host", "domain", "domain"])))
    some = {
        "from": [str(chance.choice(YEARS)), f"{chance.choice(YEARS)}06"],
        "to": [str(chance.choice(YEARS)), f"{chance.choice(YEARS)}0228"],
        "closest": ["2009", "20100101", "20070505120000", ""],
        "sort": ["reverse", "closest", "default"],
        "reverse": ["1", "0", "true"],
        "limit": ["1", "2", "5", "1000"],
        "collapseTime": ["4", "6", "8"],
        "output": ["cdxj", "json", "text", "xml"],
        "fl": [",".join(chance.sample(FIELDS, chance.randint(1, 5)))],
    }
    found += [(name, chance.choice(values)) for name, values in some.items() if chance.random() < 0.2]
    return found + [("filter", chance.choice(FILTERS)) for _ in range(chance.choice([0, 0, 0, 1, 1, 2]))]


def answers(archive: Path, queries: list[list[tuple[str, str]]]) -> list[str | None]:
    """What pywb answers."""
    assert MANAGER is not None
    ended = subprocess.run(
        [Path(MANAGER).parent / "python", "-c", ANSWERS, archive],
        input=json.dumps(queries),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answers: list[str | None] = json.loads(ended.stdout)
    return answers


def difference(asked: Mapping[str, str], theirs: str | None, status: int, ours: str) -> str:
    """Return why an answer differs if that is intended, empty if it does not differ, else `unexplained`."""
    if status == (400 if theirs is None else 200) and theirs in {None, ours}:
        return ""
    wide = asked.get("matchType") in {"host", "domain"} or asked["url"].startswith("*.")
    reasons = {
        "pywb fails": theirs is None,
        "pywb takes an unknown field for an empty one": "unknown field 'colour'" in ours,
        "pywb leaves no place for a missing status": theirs == ours.replace(" - ", " "),
        "pywb takes a host before a port for a scheme": asked["url"].startswith("p.example:"),
        "pywb takes a port for another host": wide and ":8080" in asked["url"],
    }
    return next((reason for reason, holds in reasons.items() if holds), "unexplained")


@pytest.mark.skipif(MANAGER is None, reason="pywb is not in the path")
async def test_queries_are_answered_as_pywb_answers_them(
    database: Database, settings: Settings, tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    chance = random.Random(7089)
    path = write_archive(tmp_path / "x.warc.gz", [warc_record(page) for page in pages(chance)])
    index_file(database, path, IndexOptions(margin=1))
    client = await aiohttp_client(create_app(small_pages(settings), database, base_url=BASE_URL))
    queries = [query(chance) for _ in range(500)]
    counts: dict[str, int] = {}
    for asked, theirs in zip(queries, answers(path, queries), strict=True):
        response = await client.get("/cdx", params=[("dialect", "pywb"), *asked])
        why = difference(dict(asked), theirs, response.status, await response.text())
        assert why != "unexplained", (asked, theirs, await response.text())
        counts[why] = counts.get(why, 0) + 1
    assert counts[""] > 420
