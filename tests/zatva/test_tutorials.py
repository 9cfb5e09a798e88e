"""The commands of the tutorials, run whole and in order, print what the pages show."""

import asyncio
import contextlib
import getpass
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import func, select, text

from oai.database import Database
from provider.holdings.mark import advance_mark
from provider.models import UNLISTED
from provider.titles.models import Title
from tests.commands import zatva
from tests.end_to_end.processes import eventually, running
from tests.end_to_end.test_whole_way import make_due
from tests.harvester.bibliographic.marc import marcxml
from tests.harvester.fake_repository import FakeRepository, Item, serve
from tests.harvester.sru.fake_sru import Book, FakeSru, serve_sru
from tests.harvester.z3950.conftest import ztest  # noqa: F401 a fixture
from tests.provider.archives import Page, write_pages

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")

_FOLDER: Final = Path(__file__).parents[2] / "docs" / "tutorial"
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"`([\w-]+\.(?:xml|csv))`")
_EXIT: Final = re.compile(r"# exit code (\d+)$")
_OTHERS: Final = ("wb-manager ", "yaz-ztest ", "python3 -m venv ", "tools/bin/")
"""Not run here: pywb and py-wacz are not installed, and a fixture starts YAZ's server, on a free port."""
_SERVERS: Final = {
    "serve": (("--port", "0", "--web-port", "0"), "provider at"),
    "provider serve": (("--port", "0"), "provider at"),
    "web serve": (("--port", "0"), "dashboard at"),
    "manager run": ((), "runs up to"),
    "worker": ((), "runs up to"),
}
"""The options with which a server takes free ports, and what it says when it is ready."""
_PROVIDER: Final = "http://127.0.0.1:8080"
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|(?<= in )\d+\.\d s\b")


@dataclass(kw_only=True)
class Reader:
    """Someone who works through a page: its files, commands and servers, in a folder of their own."""

    environment: dict[str, str]
    folder: Path
    places: dict[str, str]
    """What the page says, and what stands for it here: addresses, folders, the pause between requests."""
    servers: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    wait: Callable[[], None] = lambda: None
    """Returns when harvesters see what was published."""
    printed: str = ""

    def work_through(self, page: str) -> None:
        """Run the blocks in order, and compare the output of each with the block that follows it."""
        content = (_FOLDER / page).read_text(encoding="utf-8")
        with self.servers:
            for found in _BLOCK.finditer(content):
                kind, block = found.groups()
                if kind == "sh":
                    self.printed = "".join(self.run(line) for line in block.replace("\\\n", "").splitlines())
                elif kind in {"xml", "csv"}:
                    name = _FILE.findall(content[: found.start()])[-1]
                    (self.folder / name).write_text(block, encoding="utf-8")
                elif kind == "toml":
                    (self.folder / "zatva.toml").write_text(block, encoding="utf-8")
                elif kind == "":
                    assert _TIME.sub("TIME", block) in self.printed

    def run(self, line: str) -> str:
        """Run a line, or start the server that it names; return what it prints, in the page's words."""
        if line.startswith(_OTHERS):
            return ""
        for written, place in self.places.items():
            line = line.replace(written, place)
        program, *words = split_by_shell(line)
        if program != "zatva":
            return self.in_words_of_the_page(self.run_other(program, words))
        name = next((one for one in _SERVERS if words[: len(one.split())] == one.split()), None)
        if name is not None:
            self.start(words, *_SERVERS[name])
            return ""
        if words[0] == "harvest":
            self.wait()
        done = zatva(self.environment, *words, folder=self.folder)
        expected = _EXIT.search(line)
        assert done.returncode == int(expected[1] if expected else 0), f"{line}\n{done.stdout}\n{done.stderr}"
        return self.in_words_of_the_page(done.stdout + done.stderr)

    def run_other(self, program: str, words: list[str]) -> str:
        """Run curl or a module of Python, and return what it prints, as whole lines."""
        programs = {"curl": ("curl", "--fail", "--silent", "--show-error"), "python3": (sys.executable,)}
        assert program in programs, f"{program!r} is another program"
        command = [*programs[program], *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout if done.stdout.endswith("\n") else f"{done.stdout}\n"

    def start(self, words: list[str], options: tuple[str, ...], ready: str) -> None:
        """Start a server on a free port, for the rest of the page."""
        log = self.folder / f"{'-'.join(words[:2])}.log"
        _, at = self.servers.enter_context(running(self.environment, log, *words, *options, ready=ready))
        if ready == "provider at":
            self.places[_PROVIDER] = at.removesuffix("/oai")

    def in_words_of_the_page(self, printed: str) -> str:
        """Replace what differs from machine to machine by what the page has."""
        for written, place in {**self.places, "/var/lib/zatva": self.environment["ZATVA_DATA"]}.items():
            printed = printed.replace(place, written)
        return _TIME.sub("TIME", printed).replace(f", {getpass.getuser()}: ", ", root: ")


def split_by_shell(line: str) -> list[str]:
    """Return the words of a command as the shell reads them: without quotes and comment."""
    split = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True
    )
    return split.stdout.split("\0")[:-1]


def titles() -> list[Item]:
    """Twenty records in Dublin Core."""
    return [Item(identifier=f"oai:fake.example:{number}", title=f"Title {number}") for number in range(20)]


def books() -> list[Item]:
    """Twenty books in MARC 21."""
    return [
        Item(
            identifier=f"oai:fake.example:{number}",
            metadata=marcxml(
                f"001 nr{number}",
                "008 150101s2015    xr            000 0 cze  ",
                "020 ## $a80-200-0129-8",
                "041 0# $aczech",
                f"245 10 $aKnihy {number} kacířů se mají číst",
                "655 #7 $aedice$2czenas",
                fixed=None,
            ),
        )
        for number in range(20)
    ]


@pytest.mark.parametrize(
    ("page", "address", "items", "before"),
    [
        ("rule-lab.md", "https://library.example/oai", titles, ""),
        ("bibliographic-import.md", "https://biblio.example/api/oai", books, ""),
        (
            "aggregator.md",
            "https://library.example/oai",
            titles,
            "zatva harvest https://library.example/oai",
        ),
    ],
    ids=["rule-lab", "bibliographic-import", "aggregator"],
)
async def test_commands_of_the_tutorials_about_repositories_print_what_they_show(
    page: str,
    address: str,
    items: Callable[[], list[Item]],
    before: str,
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    async with serve(FakeRepository(items=items())) as fake:
        reader = Reader(
            environment=environment,
            folder=tmp_path,
            places={address: fake.url, "provider check": "provider check --polite 0"},
        )
        if before:
            await asyncio.to_thread(reader.run, before)
        await asyncio.to_thread(reader.work_through, page)


async def test_commands_of_the_tutorial_about_sru_and_z3950_print_what_they_show(
    ztest: str,  # noqa: F811 the fixture
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    async with serve_sru(FakeSru(books=[Book(number=f"nr{number}") for number in range(3)])) as fake:
        reader = Reader(
            environment=environment,
            folder=tmp_path,
            places={
                "https://sru.library.example/books": fake.url,
                "z3950://127.0.0.1:9999/Default": ztest,
            },
        )
        await asyncio.to_thread(reader.work_through, "sru-and-z3950.md")


@pytest.fixture
def archive(environment: dict[str, str], tmp_path: Path) -> Reader:
    """A reader with an archive of three web pages, in the folder that the tutorials name."""
    folder = tmp_path / "archive"
    folder.mkdir()
    urls = (
        "http://www.library.example/",
        "http://www.library.example/private.html",
        "http://www.example.cz/",
    )
    write_pages(folder / "harvest-2007-11.warc.gz", [Page(url=url) for url in urls])
    return Reader(environment=environment, folder=tmp_path, places={"/srv/warcs": str(folder)})


def test_commands_of_the_tutorial_about_an_archive_print_what_they_show(archive: Reader) -> None:
    archive.work_through("web-archive.md")


def test_commands_of_the_guide_to_collections_print_what_they_show(
    environment: dict[str, str], tmp_path: Path
) -> None:
    environment["ZATVA_PROVIDER__NAMESPACE"] = "webarchiv.example"
    write_pages(
        tmp_path / "WEB-20071102-0001.arc.gz",
        [
            Page(url=f"http://{host}.example.cz/{path}")
            for host, path in (("www", "private.html"), ("ads", ""))
        ],
    )
    reader = Reader(environment=environment, folder=tmp_path, places={})
    reader.run("zatva provider index WEB-20071102-0001.arc.gz")
    reader.work_through("../how-to/collections-and-access.md")
    for unknown in ("domain other.example", "arc OTHER.arc.gz"):
        reader.run(f"zatva provider hide --{unknown}  # exit code 2")
    assert "no documents match" in reader.run("zatva provider hide http://other.example/")


def test_commands_of_the_tutorial_about_restoring_print_what_they_show(
    archive: Reader, database: Database
) -> None:
    archive.run("zatva provider index /srv/warcs")
    make_due(database)
    with archive.servers:
        archive.run("zatva provider serve")
        archive.places["https://oai.library.example"] = archive.places[_PROVIDER]
        archive.work_through("restore-a-site.md")
    assert (archive.folder / "copy" / "index.html").exists()


@pytest.fixture
def two_sites(environment: dict[str, str], database: Database, tmp_path: Path) -> Reader:
    """A reader with an indexed archive of the sites that the tutorials about titles name."""
    library = "http://www.library.example"
    link = '<a href="/news.html">News</a>'
    pages = (
        (f"{library}/", "2007-11-02T03:04:05Z", f"<title>Town Library</title>{link}"),
        (f"{library}/news.html", "2007-11-02T03:04:09Z", "<title>News</title>"),
        (f"{library}/gallery/1.html", "2007-11-02T03:04:12Z", "<title>Picture</title>"),
        (f"{library}/", "2008-05-01T10:20:30Z", f"<title>Town Library in May</title>{link}"),
        ("http://www.magazine.example/", "2007-11-02T03:10:00Z", ""),
        ("http://www.magazine.example/2007/11.html", "2007-11-02T03:10:04Z", ""),
    )
    file = tmp_path / "harvest-2007-11.warc.gz"
    write_pages(
        file, [Page(url=url, date=date, body=f"<html>{html}</html>".encode()) for url, date, html in pages]
    )
    environment |= {
        "ZATVA_PROVIDER__NAMESPACE": "archive.example",
        "ZATVA_PROVIDER__PUBLISH_MARGIN": "1",
        "ZATVA_HARVESTER__OVERLAP": "86400",  # so that the second harvest overlaps the first, however slow
    }
    reader = Reader(
        environment=environment, folder=tmp_path, places={}, wait=lambda: wait_until_due(database)
    )
    reader.run(f"zatva provider index {file}")
    make_due(database)
    return reader


def wait_until_due(database: Database) -> None:
    """Return when the answers of providers contain all changes of titles."""

    def due() -> bool:
        with database.session() as session:
            advance_mark(session)
            last = session.scalars(select(func.max(Title.datestamp)).where(Title.datestamp < UNLISTED)).one()
            mark = session.scalars(text("SELECT moment FROM publication_mark")).one()
        return bool(mark >= last)

    eventually(due, "changes of titles that are due")


@needs_curl
def test_commands_of_the_tutorial_for_curators_print_what_they_show(two_sites: Reader) -> None:
    two_sites.work_through("curator.md")
    (folder,) = (two_sites.folder / "partner").rglob("title")
    assert len(list(folder.iterdir())) == 1


@needs_curl
def test_commands_of_the_tutorial_for_researchers_print_what_they_show(two_sites: Reader) -> None:
    page = (_FOLDER / "curator.md").read_text(encoding="utf-8")
    tables = [block for kind, block in _BLOCK.findall(page) if kind == "csv"]
    (two_sites.folder / "titles.csv").write_text(tables[1], encoding="utf-8")
    two_sites.run("zatva provider titles import titles.csv --source library")
    two_sites.work_through("researcher.md")


async def test_commands_of_the_tutorial_for_administrators_print_what_they_show(
    environment: dict[str, str], tmp_path: Path
) -> None:
    async with serve(FakeRepository(items=titles(), sets=["maps"])) as fake:
        reader = Reader(
            environment=environment,
            folder=tmp_path,
            places={
                "https://oai.library.example/oai": fake.url,
                "https://new.library.example/oai": fake.url,
                "/backup/": f"{tmp_path}/",
            },
        )
        await asyncio.to_thread(reader.work_through, "administrator.md")
