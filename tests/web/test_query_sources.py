"""Services that answer queries (SRU, Z39.50) are added, explored, planned and tried like repositories."""

import asyncio
import itertools
from dataclasses import replace

import pytest
from sqlalchemy import select

from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.models import MetadataFormat, Repository
from harvester.vocabulary import RuleKind
from manager.models import Job, RecurringJob
from oai.settings import Settings
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.rule_lab.records import FILTERS
from tests.harvester.sru.fake_sru import FakeSru, books, diagnostics, serve_sru
from tests.harvester.z3950.conftest import ztest  # noqa: F401 a fixture
from tests.web.conftest import Browser, Server
from web.app import create_app
from web.auth.organisations import give_repository
from web.repositories.explorer import EXPLORATIONS
from web.repositories.wizard import DRAFTS
from web.rules.trials import TRIALS, SampleForm

NEW = "/repositories/new"
_TITLE = 'dc.title="water"'
_WHAT = {"step": "what", "set_spec": _TITLE, "metadata_prefix": "marcxml"}


def _add(server: Server, url: str, protocol: str) -> Repository:
    with server.database.session() as session:
        row = Repository(base_url=url, base_dir="books", protocol=protocol)
        session.add(row)
        session.commit()
        session.refresh(row)
        session.expunge(row)
        return row


async def test_sru_is_recognised_automatically_and_takes_a_query_in_place_of_a_set(
    administrator: Browser,
) -> None:
    async with serve_sru(FakeSru(books=books(12))) as fake:
        status, page, _ = await administrator.post(NEW, {"base_url": fake.url, "do": "ask"})
        form = {"base_url": fake.url, **_WHAT, "do": "sample"}
        _, sample, _ = await administrator.post(NEW, form)

    assert status == 200, page
    assert "Fake catalogue" in page
    assert "<dd>SRU</dd>" in page
    assert "Query in CQL" in page
    assert "Granularity" not in page
    assert "The repository states a total of 12 records." in sample
    assert "Title 9" in sample
    assert "Title 10" not in sample
    assert fake.searches()[-1]["query"] == _TITLE


async def test_errors_of_a_sample_are_summarised_with_advice_if_no_record_is_readable(
    administrator: Browser,
) -> None:
    shelf = [replace(book, surrogate="63") for book in books(3)]
    async with serve_sru(FakeSru(books=shelf)) as fake:
        form = {"base_url": fake.url, **_WHAT, "do": "sample"}
        _, none, _ = await administrator.post(NEW, form)
        fake.books[0] = books(1)[0]
        _, one, _ = await administrator.post(NEW, form)

    assert "3 parts cannot be read; the first: record at position 1: diagnostic 63" in none
    assert "record at position 2" not in none
    assert "choose one and try again" in none
    assert "2 parts cannot be read; the first: record at position 2: diagnostic 63" in one
    assert "choose one and try again" not in one


async def test_an_oai_pmh_repository_with_an_address_like_srus_is_recognised(
    administrator: Browser,
) -> None:
    async with serve(FakeRepository(items=many(2))) as served:
        _, page, _ = await administrator.post(NEW, {"base_url": f"{served.url}?x=/sru", "do": "ask"})

    assert "<dd>OAI-PMH</dd>" in page


async def test_a_schedule_with_a_query_is_described_in_words_and_saved(
    server: Server, administrator: Browser
) -> None:
    async with serve_sru(FakeSru(books=books(3))) as fake:
        form = {
            "base_url": fake.url, "protocol": "sru", **_WHAT, "step": "plan", "base_dir": "books",
            "repository_name": "Books", "frequency": "daily at 02:30", "time_zone": "UTC", "validation": "2",
            "method": "0",
        }  # fmt: skip
        _, plan, _ = await administrator.post(NEW, {**form, "do": "show-plan"})
        status, answer, target = await administrator.post(NEW, {**form, "do": "save-and-run"})

    assert (
        "the records found by the query dc.title=&#34;water&#34; in the format marcxml, all records each time"
        in plan
    )
    assert "Only records changed" not in plan
    assert (status, target) == (303, "/jobs/1?done=harvest-asked"), answer
    with server.database.session() as session:
        assert session.scalars(select(Repository.protocol)).one() == "sru"
        assert session.scalars(select(RecurringJob.set_spec)).one() == _TITLE
        assert session.scalars(select(Job.set_spec)).one() == _TITLE
        assert set(session.scalars(select(MetadataFormat.metadata_prefix))) == {"marcxml", "dc"}


async def test_the_protocol_is_chosen_by_hand_if_a_service_does_not_describe_itself(
    administrator: Browser,
) -> None:
    async with serve_sru(FakeSru(books=books(3), explains=False)) as fake:
        unknown, page, _ = await administrator.post(NEW, {"base_url": fake.url, "do": "ask"})
        chosen, step, _ = await administrator.post(
            NEW, {"base_url": fake.url, "protocol": "sru", "do": "ask"}
        )
        form = {"base_url": fake.url, "protocol": "sru", **_WHAT, "do": "sample"}
        _, sample, _ = await administrator.post(NEW, form)

    assert unknown == 422
    assert "Choose the protocol here" in page
    assert chosen == 200
    assert "The service does not describe itself." in step
    assert "Title 2" in sample


async def test_an_invalid_query_is_reported_at_its_field(administrator: Browser) -> None:
    async with serve_sru(FakeSru(books=books(3))) as fake:
        form = {"base_url": fake.url, "step": "what", "metadata_prefix": "marcxml"}
        _, refused, _ = await administrator.post(NEW, {**form, "set_spec": "wrong", "do": "sample"})
        long = {**form, "set_spec": "x" * 5000, "do": "plan"}
        status, page, _ = await administrator.post(NEW, long)

    assert "diagnostic 10" in refused
    assert status == 422
    assert 'id="set_spec-fault"' in page


async def test_an_address_that_does_not_fit_the_protocol_is_refused(administrator: Browser) -> None:
    for address, protocol in (("https://x.example/oai", "z39.50"), ("z3950://x.example/books", "sru")):
        form = {"base_url": address, "protocol": protocol, "do": "ask"}
        status, page, _ = await administrator.post(NEW, form)
        assert status == 422
        assert "is not a valid address for the protocol" in page


async def test_friends_cannot_be_listed_for_other_protocols_than_oai_pmh(administrator: Browser) -> None:
    status, page, _ = await administrator.post(NEW, {"base_url": "z3950://x.example/books", "do": "friends"})

    assert status == 422
    assert "is not a valid base URL" in page


async def test_z3950_needs_a_query_and_shows_its_results(
    administrator: Browser,
    ztest: str,  # noqa: F811 the fixture
) -> None:
    form = {"base_url": ztest, "step": "what", "metadata_prefix": "marcxml"}
    asked, page, _ = await administrator.post(NEW, {"base_url": ztest, "do": "ask"})
    without, fault, _ = await administrator.post(NEW, {**form, "do": "plan"})
    query = {**form, "set_spec": "@attr 1=4 12"}
    _, sample, _ = await administrator.post(NEW, {**query, "do": "sample"})
    saved = {**query, "step": "plan", "base_dir": "books", "frequency": "daily at 02:30", "do": "save"}
    status, answer, _ = await administrator.post(NEW, saved)
    _, shown = await administrator.get("/repositories/1")

    assert asked == 200, page
    assert "Query in PQF" in page
    assert without == 422
    assert "Z39.50 cannot request all records" in fault
    assert "The repository states a total of 12 records." in sample
    assert status == 303, answer
    assert f'<span class="mono">{ztest}</span>' in shown
    assert "records are selected by a query in PQF" in shown


async def test_queries_to_private_networks_are_refused(server: Server, owner: Browser) -> None:
    """Neither by SRU nor by Z39.50, nor by a name or another spelling of an address."""
    server.app[DRAFTS].settings = create_app(
        server.settings.model_copy(
            update={"web": server.settings.web.model_copy(update={"private_addresses": False})}
        ),
        server.database,
    )[DRAFTS].settings
    async with serve_sru(FakeSru(books=books(3))) as fake:
        port = fake.url.split(":")[2].split("/")[0]
        addresses = (
            (fake.url, "sru"),
            (f"http://localhost:{port}/sru/books", "sru"),
            (f"z3950://127.0.0.1:{port}/Default", "z39.50"),
            (f"z3950://localhost:{port}/Default", ""),
            (f"z3950://[::ffff:127.0.0.1]:{port}/Default", ""),
        )
        for step, (address, protocol) in itertools.product(("ask", "sample", "save"), addresses):
            form = {"base_url": address, "protocol": protocol, "base_dir": "books", **_WHAT, "do": step}
            status, page, _ = await owner.post(NEW, form)
            assert status == 422, (step, address)
            assert "not on the public internet" in page, (step, address)

    assert fake.asked == []


async def test_harvests_of_an_organisations_service_refuse_private_addresses(
    server: Server, settings: Settings
) -> None:
    async with serve_sru(FakeSru(books=books(3))) as fake:
        port = fake.url.split(":")[2].split("/")[0]
        for folder, url, protocol, query in (
            ("s", fake.url, "sru", "x"),
            ("z", f"z3950://127.0.0.1:{port}/Default", "z39.50", "x"),
        ):
            with server.database.session() as session:
                row = Repository(base_url=url, base_dir=folder, protocol=protocol)
                session.add(row)
                session.flush()
                give_repository(session, row.repository_id, 1)
                session.commit()
                request = HarvestRequest(
                    repository_id=row.repository_id, metadata_prefix="marcxml", set_spec=query
                )
            outcome = await harvest(server.database, settings, request, stop=asyncio.Event())
            assert "not on the public internet" in str(outcome.failure_reason)

    assert fake.asked == []


async def test_the_explorer_sends_explain_and_search_requests_by_sru(
    server: Server, administrator: Browser
) -> None:
    async with serve_sru(FakeSru(books=books(12), cap=5)) as fake:
        _add(server, fake.url, "sru")
        base = "/repositories/1/explorer"
        _, form = await administrator.get(f"{base}?form=ListRecords")
        nothing_asked = not fake.asked
        _, explained = await administrator.get(f"{base}?verb=Identify")
        _, found = await administrator.get(f"{base}?verb=ListRecords&metadataPrefix=marcxml&set=x")
        _, more = await administrator.get(
            f"{base}?verb=ListRecords&metadataPrefix=marcxml&set=x&resumptionToken=6/12"
        )

    assert nothing_asked
    assert "it has no sets, no lists of headers, and no requests for single records" in form
    assert "form=ListSets" not in form
    assert "Fake catalogue" in explained
    assert "info:srw/schema/1/marcxml-v1.1" in explained
    assert "curl --compressed" in explained
    assert "of 12" in found
    assert "Title 4" in found
    assert "resumptionToken=6/12&amp;metadataPrefix=marcxml&amp;set=x" in found
    assert "Title 9" in more


async def test_the_explorer_queries_z3950_servers(server: Server, administrator: Browser, ztest: str) -> None:  # noqa: F811
    _add(server, ztest, "z39.50")
    base = "/repositories/1/explorer"
    _, answer = await administrator.get(f"{base}?verb=Identify")
    _, without = await administrator.get(f"{base}?verb=ListRecords")
    _, found = await administrator.get(f"{base}?verb=ListRecords&set=@attr%201=4%203")

    assert "Z39.50 version 3" in answer
    assert "curl" not in answer.partition('id="answer"')[2].replace("browsers and curl do not support", "")
    assert "give a query in PQF" in without
    assert "of 3" in found
    assert "&lt;record" in found


async def test_rules_are_tried_on_the_records_that_a_query_finds(
    server: Server, administrator: Browser
) -> None:
    form = {"kind": "filter", "view": "xml", "content": FILTERS.decode(), "do": "try"}
    sample = {"sample_repository": "1", "sample_source": "live", "sample_samples": "10"}
    async with serve_sru(FakeSru(books=books(4))) as fake:
        _add(server, fake.url, "sru")
        query = {"sample_set_spec": _TITLE, "sample_metadata_prefix": "oai_dc"}
        _, tried, _ = await administrator.post("/rules/new", {**form, **sample, **query})

    assert "4 of 4 samples were tried." in tried
    assert fake.searches()[-1]["query"] == _TITLE


async def test_a_trial_of_a_rule_without_the_required_query_is_refused(server: Server) -> None:
    repository = _add(server, "z3950://127.0.0.1:1/Default", "z39.50")
    asked = SampleForm(repository=1, source="live")

    with pytest.raises(Exception, match="cannot request all records"):
        await server.app[TRIALS].run(FILTERS, RuleKind.FILTER, asked, repository)


async def test_schedules_take_queries_and_no_dates(server: Server, administrator: Browser) -> None:
    _add(server, "z3950://catalogue.example/books", "z39.50")
    plan = {"metadata_prefix": "marcxml", "frequency": "daily at 02:30", "do": "save"}
    address = "/schedules/new?repository=1"

    _, page = await administrator.get(address)
    without, fault, _ = await administrator.post(address, plan)
    sliced, _, _ = await administrator.post(address, {**plan, "set_spec": "@attr 1=4 x", "slice": "month"})
    saved, answer, _ = await administrator.post(address, {**plan, "set_spec": '@attr 1=4 "x"'})

    assert "Query in PQF" in page
    assert "Division" not in page
    assert without == 422
    assert 'id="set_spec-fault"' in fault
    assert sliced == 422
    assert saved == 303, answer
    with server.database.session() as session:
        assert session.scalars(select(RecurringJob.set_spec)).one() == '@attr 1=4 "x"'


async def test_pages_say_which_functions_do_not_apply_to_sru(server: Server, administrator: Browser) -> None:
    _add(server, "https://catalogue.example/sru", "sru")

    _, examination = await administrator.get("/repositories/1/doctor")
    begun, _, _ = await administrator.post("/repositories/1/doctor")
    _, overview = await administrator.get("/repositories/1")
    changed, _, _ = await administrator.post(
        "/repositories/1/settings", {"base_url": "z3950://x.example/b", "deletion_policy": "mark"}
    )

    assert "This one is harvested by SRU" in examination
    assert begun == 409
    assert "https://catalogue.example/sru?operation=explain&amp;version=1.2" in overview
    assert changed == 422


async def test_a_diagnostic_in_an_answer_is_shown_by_the_explorer(
    server: Server, administrator: Browser
) -> None:
    wrong = diagnostics("10", "wrong").encode()
    async with serve_sru(FakeSru(books=books(1), fault=lambda _arguments, _body: wrong)) as fake:
        repository = _add(server, fake.url, "sru")
        status, page = await administrator.get("/repositories/1/explorer?verb=ListRecords&set=x")
        with pytest.raises(Exception, match="not a valid position in a result"):
            await server.app[EXPLORATIONS].ask(
                repository,
                Verb.LIST_RECORDS,
                [("set", "x"), ("resumptionToken", "nowhere")],
            )

    assert status == 200
    assert "Raw data" in page
