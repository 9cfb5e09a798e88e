"""The commands of the tutorials, run whole and in order, print what the pages show."""

import asyncio
import contextlib
import getpass
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from oai.database import Database
from tests.commands import zatva
from tests.end_to_end.processes import running
from tests.end_to_end.test_whole_way import make_due
from tests.harvester.bibliographic.marc import marcxml
from tests.harvester.fake_repository import FakeRepository, Item, serve
from tests.harvester.sru.fake_sru import Book, FakeSru, serve_sru
from tests.harvester.z3950.conftest import ztest  # noqa: F401 a fixture
from tests.provider.archives import Page, write_pages

_FOLDER: Final = Path(__file__).parents[2] / "docs" / "tutorial"
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(r"`([\w-]+\.xml)`")
_OTHERS: Final = (
    "wb-manager ",
    "yaz-ztest ",
    "python3 -m venv ",
    "/opt/zatva/",
    "export ZATVA_DATABASE_URL=",
)
"""Not run here: pywb is not installed, a fixture starts YAZ's server, on a free port, and `test_wheel`
installs Zatva into an environment of its own; the tests have their database."""
_SERVERS: Final = {
    "serve": (("--port", "0", "--web-port", "0"), "provider at"),
    "provider serve": (("--port", "0"), "provider at"),
    "web serve": (("--port", "0"), "dashboard at"),
    "manager run": ((), "runs up to"),
    "worker": ((), "runs up to"),
}
"""The options with which a server takes free ports, and what it says when it is ready."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass(kw_only=True)
class Reader:
    """Someone who works through a page: its files, commands and servers, in a folder of their own."""

    environment: dict[str, str]
    folder: Path
    places: dict[str, str]
    """What the page says, and what stands for it here: addresses, folders, the pause between requests."""
    servers: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    printed: str = ""

    def work_through(self, page: str) -> None:
        """Run the blocks in order, and compare the output of each with the block that follows it."""
        text = (_FOLDER / page).read_text(encoding="utf-8")
        with self.servers:
            for found in _BLOCK.finditer(text):
                kind, block = found.groups()
                if kind == "sh":
                    self.printed = "".join(self.run(line) for line in block.splitlines())
                elif kind == "xml":
                    name = _FILE.findall(text[: found.start()])[-1]
                    (self.folder / name).write_text(block, encoding="utf-8")
                elif kind == "toml":
                    (self.folder / "zatva.toml").write_text(block, encoding="utf-8")
                elif kind == "":
                    assert _TIME.sub("TIME", block) in self.printed

    def run(self, line: str) -> str:
        """Run a line, or start the server that it names; return what it prints, in the page's words."""
        if line.startswith(_OTHERS):
            return ""
        for said, place in self.places.items():
            line = line.replace(said, place)
        program, *words = split_by_shell(line)
        assert program == "zatva", f"{line!r} runs another program"
        name = next((one for one in _SERVERS if words[: len(one.split())] == one.split()), None)
        if name is not None:
            self.start(words, *_SERVERS[name])
            return ""
        done = zatva(self.environment, *words, folder=self.folder)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return self.in_words_of_the_page(done.stdout + done.stderr)

    def start(self, words: list[str], options: tuple[str, ...], ready: str) -> None:
        """Start a server on a free port, for the rest of the page."""
        log = self.folder / f"{'-'.join(words[:2])}.log"
        _, at = self.servers.enter_context(running(self.environment, log, *words, *options, ready=ready))
        self.places["http://127.0.0.1:8080/oai"] = at

    def in_words_of_the_page(self, printed: str) -> str:
        """Replace what differs from machine to machine by what the page has."""
        for said, place in {**self.places, "/var/lib/zatva": self.environment["ZATVA_DATA"]}.items():
            printed = printed.replace(place, said)
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
async def test_a_tutorial_about_a_repository_does_what_it_says(
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


async def test_the_tutorial_about_other_protocols_does_what_it_says(
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
    """A reader with an archive of three pages, in the folder that the pages name."""
    folder = tmp_path / "archive"
    folder.mkdir()
    urls = (
        "http://www.library.example/",
        "http://www.library.example/private.html",
        "http://www.example.cz/",
    )
    write_pages(folder / "harvest-2007-11.warc.gz", [Page(url=url) for url in urls])
    return Reader(environment=environment, folder=tmp_path, places={"/srv/warcs": str(folder)})


def test_the_tutorial_about_an_archive_does_what_it_says(archive: Reader) -> None:
    archive.work_through("web-archive.md")


def test_the_tutorial_about_restoring_does_what_it_says(archive: Reader, database: Database) -> None:
    archive.run("zatva provider index /srv/warcs")
    make_due(database)
    with archive.servers:
        archive.run("zatva provider serve")
        archive.places["https://oai.library.example/oai"] = archive.places["http://127.0.0.1:8080/oai"]
        archive.work_through("restore-a-site.md")
    assert (archive.folder / "copy" / "index.html").exists()


async def test_the_tutorial_for_administrators_does_what_it_says(
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
