"""Harvests by Z39.50 from a real server, through the real `yaz-client`."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import select

from harvester.bibliographic.importer import run_import
from harvester.bibliographic.models import BibliographicRow
from harvester.client.query_results import QueryCursor
from harvester.client.selection import Selection
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.verdict import End
from harvester.models import History, Record
from harvester.reading.errors import CannotDisseminateFormatError, OaiError, TransportError, TransportKind
from harvester.repositories import add_repository
from harvester.vocabulary import Verdict
from harvester.z3950 import session
from harvester.z3950.client import Z3950Client
from harvester.z3950.session import SessionAnswer
from oai.database import Database
from oai.errors import SettingsError
from oai.sections import HarvesterSettings
from oai.settings import Settings
from oai.vocabulary import Verb
from tests.harvester.test_commands import run

QUICK = HarvesterSettings(retries=0, timeout=20, delay=0)


async def first(url: str, query: str, settings: HarvesterSettings = QUICK, prefix: str = "marcxml") -> int:
    selection = Selection(metadata_prefix=prefix, set_spec=query)
    page = await anext(Z3950Client(url, settings).pages(Verb.LIST_RECORDS, selection, loose=True))
    return len(page.records)


async def test_a_result_is_stored_as_files_and_rows(
    ztest: str, database: Database, settings: Settings, tmp_path: Path
) -> None:
    with database.session() as open_session:
        added = add_repository(open_session, base_url=ztest, base_dir=str(tmp_path / "out"))
        open_session.commit()
        repository_id, protocol = added.repository_id, added.protocol
    request = HarvestRequest(repository_id=repository_id, metadata_prefix="marcxml", set_spec="@attr 1=4 20")
    outcome = await harvest(database, settings, request, stop=asyncio.Event())
    assert protocol == "z39.50"
    assert outcome.failure_reason is None
    assert (outcome.counts["records"], outcome.evidence.complete_list_size) == (20, 20)
    with database.session() as open_session:
        rows = list(open_session.scalars(select(Record)))
    assert outcome.verdict is Verdict.COMPLETE
    assert len(rows) == len(list((tmp_path / "out").rglob("*.xml"))) == outcome.counts["new"]
    assert rows[0].identifier.startswith("z3950:127.0.0.1:Default:")


async def test_records_harvested_by_z3950_become_bibliographic_rows(
    ztest: str, database: Database, settings: Settings, tmp_path: Path
) -> None:
    with database.session() as open_session:
        repository_id = add_repository(open_session, base_url=ztest, base_dir=str(tmp_path)).repository_id
        open_session.commit()
    request = HarvestRequest(repository_id=repository_id, metadata_prefix="marcxml", set_spec="@attr 1=4 20")
    harvested = await harvest(database, settings, request, stop=asyncio.Event())
    facts = run_import(database, settings, repository_id, started_by="me")
    assert (facts.state, facts.new, facts.refused) == ("completed", harvested.counts["new"], 0)
    with database.session() as open_session:
        rows = open_session.scalars(select(BibliographicRow)).all()
    assert {(row.format, row.metadata_prefix, bool(row.title)) for row in rows} == {
        ("marc21", "marcxml", True)
    }
    assert all(row.identifier.startswith("z3950:127.0.0.1:Default:") for row in rows)


async def test_a_query_without_hits_causes_no_warning(
    ztest: str, database: Database, settings: Settings, tmp_path: Path
) -> None:
    with database.session() as open_session:
        repository_id = add_repository(open_session, base_url=ztest, base_dir=str(tmp_path)).repository_id
        open_session.commit()
    request = HarvestRequest(repository_id=repository_id, metadata_prefix="marcxml", set_spec="@attr 1=4 0")
    outcome = await harvest(database, settings, request, stop=asyncio.Event())
    with database.session() as open_session:
        row = open_session.scalars(select(History)).one()
    assert (outcome.verdict, outcome.evidence.end) == (Verdict.COMPLETE, End.NO_RECORDS_MATCH)
    assert row.warnings == []


async def test_a_result_is_resumed_at_its_position(ztest: str) -> None:
    client = Z3950Client(ztest, QUICK)
    selection = Selection(metadata_prefix="marcxml", set_spec="@attr 1=4 42")
    page = await anext(client.pages(Verb.LIST_RECORDS, selection, resumption_token="41", loose=True))
    assert (len(page.records), page.next_token, page.complete_list_size) == (2, "", 42)


async def test_a_long_result_is_read_page_by_page(ztest: str) -> None:
    selection = Selection(metadata_prefix="marcxml", set_spec="@attr 1=4 230")
    listing = Z3950Client(ztest, QUICK).pages(Verb.LIST_RECORDS, selection, loose=True)
    found = [(len(page.records), page.next_token) async for page in listing]
    assert found == [(100, "101/230"), (100, "201/230"), (30, "")]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int = -1) -> None:
    """Copy messages until the connection ends, or until another one follows the first `most`."""
    while (message := await reader.read(1 << 16)) and most:
        writer.write(message)
        most -= 1
    writer.close()


async def test_a_connection_closed_instead_of_returning_records_is_retried(ztest: str) -> None:
    sessions = 0

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sessions
        sessions += 1
        there, here = await asyncio.open_connection("127.0.0.1", urlsplit(ztest).port)
        # The second session requests records; its first two messages connect and search.
        await asyncio.gather(_copy(there, writer), _copy(reader, here, 2 if sessions == 2 else -1))

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as server:
        url = f"z3950://127.0.0.1:{server.sockets[0].getsockname()[1]}/Default"
        patient = QUICK.model_copy(update={"retries": 1, "first_delay": 0.01})
        assert await first(url, "@attr 1=4 42", patient) == 42
        sessions = 0
        with pytest.raises(TransportError, match="no answer to the request for records"):
            await first(url, "@attr 1=4 42")


async def test_a_record_with_a_stray_end_mark_hides_no_other_record(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answered(*_address: object, place: QueryCursor, **_most: object) -> SessionAnswer:
        return SessionAnswer(
            size=2, received=1, records=[b"a\x1db\x1d", b"c\x1d"][place.position - 1], traffic=4
        )

    monkeypatch.setattr(session, "ask", answered)
    selection = Selection(metadata_prefix="marcxml", set_spec="@attr 1=4 2")
    listing = Z3950Client("z3950://127.0.0.1:1/Default", QUICK).pages(
        Verb.LIST_RECORDS, selection, loose=True
    )
    assert [(len(page.faults), page.next_token) async for page in listing] == [(2, "2/2"), (1, "")]


async def test_a_position_that_the_server_rejects_ends_the_list_with_a_fault(
    ztest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_address: object, url: str, *_query: object, **_place: object) -> SessionAnswer:
        raise session.Z3950Error(url, "diagnostic 13", "Present request out of range")

    monkeypatch.setattr(session, "ask", refused)
    client, selection = (
        Z3950Client(ztest, QUICK),
        Selection(metadata_prefix="marcxml", set_spec="@attr 1=4 42"),
    )
    page = await anext(client.pages(Verb.LIST_RECORDS, selection, resumption_token="41/42", loose=True))
    assert (page.next_token, page.faults[0].failure.facts) == ("", {"count": 2})
    with pytest.raises(OaiError, match="diagnostic 13"):
        await anext(client.pages(Verb.LIST_RECORDS, selection, resumption_token="41/42"))


async def test_a_result_that_shrank_is_a_fault_and_not_an_error(ztest: str) -> None:
    client = Z3950Client(ztest, QUICK)
    selection = Selection(metadata_prefix="marcxml", set_spec="@attr 1=4 42")
    page = await anext(client.pages(Verb.LIST_RECORDS, selection, resumption_token="41/60", loose=True))
    assert (len(page.records), page.next_token) == (2, "")
    assert page.faults[0].reason.startswith("the number of records fell from 60 to 42")


async def test_errors_are_reported_with_their_reason(ztest: str) -> None:
    with pytest.raises(OaiError, match="diagnostic 109: Database unavailable"):
        await first(ztest.replace("Default", "Elsewhere"), "water")
    with pytest.raises(OaiError, match="the query is not valid PQF"):
        await first(ztest, "@and")
    with pytest.raises(CannotDisseminateFormatError, match="--format marcxml"):
        await first(ztest, "water", prefix="oai_dc")


@pytest.mark.usefixtures("ztest")
async def test_a_refused_connection_is_distinguished_from_a_timeout() -> None:
    with pytest.raises(TransportError) as refused:
        await first("z3950://127.0.0.1:1/Default", "water")
    assert refused.value.kind is TransportKind.REFUSED

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError) as late:
            await first(
                f"z3950://127.0.0.1:{port}/Default", "water", QUICK.model_copy(update={"timeout": 0.5})
            )
        server.close()
    assert late.value.kind is TransportKind.TIMEOUT


async def test_a_guarded_harvest_reaches_only_public_addresses(ztest: str) -> None:
    with pytest.raises(TransportError, match=r"not on the public internet; .* harvester\.private_addresses"):
        await first(ztest, "water", QUICK.model_copy(update={"private_addresses": False}))


async def test_without_yaz_client_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "PROGRAM", "no-such-program")
    with pytest.raises(SettingsError, match="apt install yaz"):
        await first("z3950://127.0.0.1:1/Default", "water")


async def test_the_commands_support_z3950(ztest: str, environment: dict[str, str], tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    probed = await run(environment, "probe", ztest, "--query", "@attr 1=4 12")
    harvested = await run(
        environment, "harvest", ztest, "--query", "@attr 1=4 12", "--format", "marcxml",
        "--out", out, "--json",
    )  # fmt: skip
    assert probed.code == 0, probed.err
    assert "12 of 12 on the first page" in probed.out
    assert harvested.code == 0, harvested.err
    assert {"verdict": "complete", "records": 12}.items() <= harvested.json.items()
