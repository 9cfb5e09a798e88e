"""The process that reads pages gives what would be read here."""

import os
import signal
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from harvester.harvest.page_reader_process import ReadingProcess, documents_of
from harvester.reading.answers import Page
from harvester.reading.errors import OaiError
from harvester.reading.replies import Unread
from oai.child import CompanionEndedError
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, Item, many

MIXED = [
    Item(identifier="oai:a:1", sets=("s", "t:u"), title="Ünïcode & <more>"),
    Item(identifier="oai:a:2", deleted=True),
    Item(identifier="oai:a:3", datestamp="2024-01-02"),
]


def unread(items: list[Item], *, page_size: int = 100, verb: Verb = Verb.LIST_RECORDS) -> Unread:
    body = FakeRepository(items=items, page_size=page_size).answer({"verb": verb.value}).encode()
    return Unread(body=body, verb=verb, url="http://a.example/oai", content_type="text/xml", loose=True)


def changed(old: bytes, new: bytes, page_size: int = 100) -> Unread:
    """The same page with a damage, which must be one."""
    good = unread(MIXED, page_size=page_size)
    body = good.body[:]
    assert old in body
    return good._replace(body=body.replace(old, new, 1))


def nobody(_token: str) -> None:
    """Is told a page's token, and does nothing with it."""


@pytest.fixture
def process() -> Iterator[ReadingProcess]:
    process = ReadingProcess()
    yield process
    process.close()


@pytest.mark.parametrize(
    "asked",
    [
        unread(MIXED),
        unread(MIXED, page_size=2),
        unread([*MIXED, Item(identifier="oai:a:4", datestamp="")]),
        changed(b"</oai_dc:dc>", b"</oai_dc:de>"),
        changed(b"<record>", b"<stray/><record>"),
        changed(b"</ListRecords></OAI-PMH>", b"<record><header>"),
        changed(b'xmlns="http://www.openarchives.org/OAI/2.0/"', b'xmlns="http://other.example/"'),
    ],
    ids=["mixed", "token", "no datestamp", "broken record", "stray element", "cut off", "namespace"],
)
def test_the_process_reads_what_would_be_read_here(process: ReadingProcess, asked: Unread) -> None:
    page = process.read(asked, nobody)
    assert page is not None
    documents = process.documents()
    here = asked.read()
    for each in fields(Page):
        if each.name != "records":
            assert getattr(page, each.name) == getattr(here, each.name), each.name
    assert list(documents) == documents_of(here)
    assert len(documents) == len(page.headers) > 0


def test_the_token_is_told_before_the_headers_come(process: ReadingProcess) -> None:
    tokens: list[str] = []
    page = process.read(unread(MIXED, page_size=2), tokens.append)
    assert page is not None and page.next_token  # noqa: PT018 a page with a token
    assert tokens == [page.next_token]
    process.documents()
    assert process.read(changed(b"</record>", b"</recorde>", page_size=2), tokens.append) is not None
    assert len(tokens) == 1


def test_a_folder_called_like_our_packages_is_not_taken_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("harvester", "oai"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    ReadingProcess().close()


def test_what_raises_is_left_to_be_read_here_and_the_process_goes_on(process: ReadingProcess) -> None:
    error = unread([])
    with pytest.raises(OaiError):
        error.read()
    assert process.read(error, nobody) is None
    assert process.read(error._replace(body=b"no XML"), nobody) is None
    assert process.read(unread(MIXED), nobody) is not None
    assert len(process.documents()) == 3


def test_one_that_is_killed_within_an_answer_has_ended() -> None:
    process = ReadingProcess()
    page = process.read(unread(many(30, size=100_000)), nobody)  # more than a pipe holds
    assert page is not None
    os.kill(process.number, signal.SIGKILL)
    with pytest.raises(CompanionEndedError, match="ended with -9"):
        process.documents()
    with pytest.raises(CompanionEndedError, match="ended with -9"):
        process.read(unread(MIXED), nobody)
    process.close()
