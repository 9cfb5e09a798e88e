"""The list of documents to restore is kept while it is valid and requested again otherwise."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from harvester.client import BadResumptionTokenError, ServerBusyError
from harvester.restoring import restore as wanted
from harvester.restoring.addresses import read_scope
from harvester.restoring.outcome import RestoreOutcome
from harvester.restoring.restore import FILES, Restore, restore
from oai.disk import DiskFloor, DiskFullError
from oai.errors import ExitCode
from oai.sections import HarvesterSettings
from tests.harvester.restoring.fake_provider import FakeProvider, serve_provider

_DOCUMENTS = 25
_QUICK = HarvesterSettings(retries=0, max_wait=1.0, per_host=1, delay=0)


@pytest.fixture
async def provider() -> AsyncIterator[FakeProvider]:
    """Provide 25 documents, listed on three pages."""
    made = FakeProvider(page_size=10)
    for number in range(_DOCUMENTS):
        made.add(f"http://h.example/{number:02}.html", b"<p>%d</p>" % number)
    async with serve_provider(made):
        yield made


async def _restored(provider: FakeProvider, folder: Path) -> RestoreOutcome:
    return await restore(
        Restore(
            scope=read_scope("all"),
            folder=folder,
            base_url=provider.url,
            form=FILES,
            settings=_QUICK,
            floor=DiskFloor(folders=[folder], bytes=0, percent=0),
        )
    )


async def test_a_restore_stops_before_the_disk_is_full(provider: FakeProvider, tmp_path: Path) -> None:
    full = DiskFloor(folders=[tmp_path], bytes=10**18, percent=100, every=1)
    asked = Restore(
        scope=read_scope("all"), folder=tmp_path / "site", base_url=provider.url, form=FILES,
        settings=_QUICK, floor=full,
    )  # fmt: skip
    with pytest.raises(DiskFullError):
        await restore(asked)
    assert (await restore(replace(asked, floor=replace(full, bytes=0)))).restored == _DOCUMENTS


async def _broken_off(provider: FakeProvider, folder: Path, *, after: int) -> None:
    """End a restore after the given number of documents."""

    def busy(_key: str) -> web.Response | None:
        full = len(provider.fetched) > after
        return web.Response(status=503, headers={"Retry-After": "9000"}) if full else None

    provider.refusal = busy
    with pytest.raises(ServerBusyError):
        await _restored(provider, folder)
    provider.refusal = lambda _key: None


def _urls(folder: Path) -> list[str]:
    return [json.loads(line)["url"] for line in (folder / "manifest.jsonl").read_bytes().splitlines()[1:]]


async def test_an_interrupted_restore_continues_with_its_stored_list(
    provider: FakeProvider, tmp_path: Path
) -> None:
    await _broken_off(provider, tmp_path / "copy", after=7)
    asked, fetched = len(provider.lists()), len(provider.fetched)
    done = await _restored(provider, tmp_path / "copy")
    assert (done.exit_code, done.restored, done.fetched) == (ExitCode.DONE, _DOCUMENTS, _DOCUMENTS - 7)
    assert len(provider.lists()) == asked
    assert len(provider.fetched) == fetched + _DOCUMENTS - 7
    assert not (tmp_path / "copy" / wanted.NAME).exists()


async def test_a_list_older_than_a_day_is_requested_again_and_no_document_is_fetched_twice(
    provider: FakeProvider, tmp_path: Path
) -> None:
    await _broken_off(provider, tmp_path / "copy", after=7)
    kept = tmp_path / "copy" / wanted.NAME
    day_before = kept.stat().st_mtime - 86_400 - 1
    os.utime(kept, (day_before, day_before))
    new = provider.add("http://h.example/new.html", b"<p>new</p>")
    done = await _restored(provider, tmp_path / "copy")
    assert (done.restored, done.fetched, done.others) == (_DOCUMENTS + 1, _DOCUMENTS + 1 - 7, 0)
    assert provider.fetched.count(new) == 1
    assert len(_urls(tmp_path / "copy")) == len(set(_urls(tmp_path / "copy"))) == _DOCUMENTS + 1


@pytest.mark.parametrize("content", [b"", b'{"listed": 3}\n{"capt', b"\x00\x00\x00"])
async def test_a_stored_list_that_cannot_be_read_is_requested_again(
    content: bytes, provider: FakeProvider, tmp_path: Path
) -> None:
    await _broken_off(provider, tmp_path / "copy", after=2)
    (tmp_path / "copy" / wanted.NAME).write_bytes(content)
    done = await _restored(provider, tmp_path / "copy")
    assert (done.restored, done.fetched) == (_DOCUMENTS, _DOCUMENTS - 2)


async def test_after_an_expired_token_no_partial_list_is_kept_and_the_same_command_restarts_it(
    provider: FakeProvider, tmp_path: Path
) -> None:
    def expired(asked: dict[str, str], good: bytes) -> bytes | None:
        if not asked.get("resumptionToken", "").startswith("20|"):
            return None
        return good[: good.index(b"<ListRecords>")] + b'<error code="badResumptionToken"/></OAI-PMH>'

    provider.fault = expired
    with pytest.raises(BadResumptionTokenError) as raised:
        await _restored(provider, tmp_path / "copy")
    assert raised.value.exit_code is ExitCode.REMOTE_FAILED
    assert (_urls(tmp_path / "copy"), provider.fetched) == ([], [])
    assert not (tmp_path / "copy" / wanted.NAME).exists()
    provider.fault = None
    done = await _restored(provider, tmp_path / "copy")
    assert (done.exit_code, done.restored) == (ExitCode.DONE, _DOCUMENTS)
