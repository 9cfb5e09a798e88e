"""The process that reads pages returns the same as reading them here."""

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
    """Return the same page with some text replaced, which has to occur."""
    good = unread(MIXED, page_size=page_size)
    body = good.body[:]
    assert old in body
    return good._replace(body=body.replace(old, new, 1))


def nobody(_token: str) -> None:
    """Accept a page's token and ignore it."""


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
def test_the_process_returns_the_same_as_reading_here(process: ReadingProcess, asked: Unread) -> None:
    page = process.read(asked, nobody)
    assert page is not None
    documents = process.documents()
    here = asked.read()
    for each in fields(Page):
        if each.name != "records":
            assert getattr(page, each.name) == getattr(here, each.name), each.name
    assert list(documents) == documents_of(here)
    assert len(documents) == len(page.headers) > 0


def test_the_token_is_reported_before_the_headers(process: ReadingProcess) -> None:
    tokens: list[str] = []
    page = process.read(unread(MIXED, page_size=2), tokens.append)
    assert page is not None and page.next_token  # noqa: PT018 a page with a token
    assert tokens == [page.next_token]
    process.documents()
    assert process.read(changed(b"</record>", b"</recorde>", page_size=2), tokens.append) is not None
    assert len(tokens) == 1


def test_a_folder_named_like_one_of_our_packages_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("harvester", "oai"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    ReadingProcess().close()


def test_an_answer_that_raises_is_left_to_be_read_here_and_the_process_continues(
    process: ReadingProcess,
) -> None:
    error = unread([])
    with pytest.raises(OaiError):
        error.read()
    assert process.read(error, nobody) is None
    assert process.read(error._replace(body=b"no XML"), nobody) is None
    assert process.read(unread(MIXED), nobody) is not None
    assert len(process.documents()) == 3


def test_a_process_killed_within_an_answer_is_reported_as_ended() -> None:
    process = ReadingProcess()
    page = process.read(unread(many(30, size=100_000)), nobody)  # more than a pipe holds
    assert page is not None
    os.kill(process.number, signal.SIGKILL)
    with pytest.raises(CompanionEndedError, match="ended with -9"):
        process.documents()
    with pytest.raises(CompanionEndedError, match="ended with -9"):
        process.read(unread(MIXED), nobody)
    process.close()
