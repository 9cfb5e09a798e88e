"""The explorer sends requests to the live repository, and shows the answers."""

from sqlalchemy import update

from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository
from oai.datestamps import utc_now
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, Item, many, serve
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.app import create_app
from web.repositories.explorer import EXPLORATIONS

EXPLORER = "/repositories/1/explorer"


def _known(server: Server, url: str) -> None:
    """Add the repository at that address, with two formats and a set."""
    with server.database.session() as session:
        row = a_repository(session)
        row.base_url = url
        row.granularity = "YYYY-MM-DDThh:mm:ssZ"
        formats = [MetadataFormat(metadata_prefix=prefix) for prefix in ("marc21", "oai_dc")]
        session.add_all([*formats, OaiSet(repository_id=1, set_spec="maps", set_name="Maps")])
        session.flush()
        session.add_all([PrefixMapping(repository_id=1, prefix_id=one.prefix_id) for one in formats])
        session.commit()


async def test_arguments_are_chosen_from_lists_without_a_request(
    server: Server, administrator: Browser
) -> None:
    async with serve(FakeRepository(items=many(3))) as fake:
        _known(server, fake.url)
        _, page = await administrator.get(f"{EXPLORER}?form=ListRecords")

        assert "<option>oai_dc</option>" in page
        assert "<option>marc21</option>" in page
        assert '<option value="maps">Maps (maps)</option>' in page
        assert fake.asked == []


_ANSWERED = (
    ("verb=Identify", ["Fake", "admin@fake.example", "repositoryName"]),
    ("verb=ListMetadataFormats", ["http://www.openarchives.org/OAI/2.0/oai_dc/", "form=ListRecords"]),
    ("verb=ListSets", ["Set maps", "form=ListRecords&amp;set=maps"]),
    ("verb=ListIdentifiers&metadataPrefix=oai_dc", ["oai:fake.example:0", "verb=GetRecord"]),
    ("verb=ListRecords&metadataPrefix=oai_dc", ["Title 0", "of 3", "&lt;dc:title"]),
    (
        "verb=GetRecord&identifier=oai:fake.example:1&metadataPrefix=oai_dc",
        ["Title 1", "curl --compressed", "&lt;OAI-PMH"],
    ),
)


async def test_each_verb_is_answered(server: Server, administrator: Browser) -> None:
    async with serve(FakeRepository(items=many(3), sets=["maps"], page_size=2)) as fake:
        _known(server, fake.url)
        for query, expected in _ANSWERED:
            fake.asked.clear()
            status, page = await administrator.get(f"{EXPLORER}?{query}")

            assert status == 200, query
            assert len(fake.asked) == 1, query
            for text in (*expected, " ms</dd>", "Content-Type"):
                assert text in page, (query, text)


async def test_the_next_page_is_linked_with_its_resumption_token(
    server: Server, administrator: Browser
) -> None:
    async with serve(FakeRepository(items=many(3), page_size=2)) as fake:
        _known(server, fake.url)
        _, page = await administrator.get(f"{EXPLORER}?verb=ListIdentifiers&metadataPrefix=oai_dc")
        assert "resumptionToken=2%7C%7C%7C" in page
        _, page = await administrator.get(
            f"{EXPLORER}?verb=ListIdentifiers&metadataPrefix=&resumptionToken=2%7C%7C%7C"
        )

    assert fake.asked[-1] == {"verb": "ListIdentifiers", "resumptionToken": "2|||"}
    assert "oai:fake.example:2" in page


async def test_deviations_from_the_specification_are_listed(server: Server, administrator: Browser) -> None:
    items = [Item(identifier="oai:x:1", datestamp="2024-01-01", sets=("books",)), Item(identifier="oai:x:1")]
    fake = FakeRepository(items=items)
    async with serve(fake):
        _known(server, fake.url)
        _, page = await administrator.get(
            f"{EXPLORER}?verb=ListRecords&metadataPrefix=oai_dc&from=2024-01-01"
        )

    assert "2024-01-01 is not a valid datestamp with granularity YYYY-MM-DDThh:mm:ssZ." in page
    assert "The identifier oai:x:1 occurs more than once." in page


async def test_records_outside_the_requested_range_or_set_are_reported(
    server: Server, administrator: Browser
) -> None:
    everything = FakeRepository(items=many(2))
    fake = FakeRepository(
        items=many(2), fault=lambda _, __: everything.answer({"verb": "ListRecords"}).encode()
    )
    async with serve(fake):
        _known(server, fake.url)
        _, page = await administrator.get(
            f"{EXPLORER}?verb=ListRecords&metadataPrefix=oai_dc&from=2025-01-01&set=maps"
        )

    assert "which is outside the requested range" in page
    assert "does not list the set maps in its header" in page


async def test_a_conforming_answer_has_no_deviations(server: Server, administrator: Browser) -> None:
    async with serve(FakeRepository(items=many(2))) as fake:
        _known(server, fake.url)
        _, page = await administrator.get(f"{EXPLORER}?verb=ListRecords&metadataPrefix=oai_dc")

    assert "None: the answer conforms to the specification." in page


async def test_a_malformed_answer_is_shown_with_the_fault_marked(
    server: Server, administrator: Browser
) -> None:
    fake = FakeRepository(items=many(2), fault=lambda _, body: body.replace(b"Title 1", b"Title & 1"))
    async with serve(fake):
        _known(server, fake.url)
        _, page = await administrator.get(f"{EXPLORER}?verb=ListRecords&metadataPrefix=oai_dc")

    assert 'class="faulty"' in page
    assert "1 part cannot be read" in page
    assert "oai:fake.example:0" in page


_FAILURES = (
    (403, b"no", "The server denies access (HTTP 403)."),
    (202, b"", "The server&#39;s protection against bots refuses this program."),
    (
        200,
        b"<title>Just a moment...</title>",
        "The server&#39;s protection against bots refuses this program.",
    ),
    (200, b"<rss/>", "The answer is XML, but not OAI-PMH."),
    (200, b"<html/>", "The server answered, but not with OAI-PMH."),
    (200, b"<HTML xmlns='http://www.w3.org/1999/xhtml'/>", "The server answered, but not with OAI-PMH."),
    (200, b"hello", "The server answered, but not with OAI-PMH."),
)


async def test_failures_are_named_by_kind_and_their_raw_data_is_shown(
    server: Server, administrator: Browser
) -> None:
    fake = FakeRepository()
    async with serve(fake):
        _known(server, fake.url)
        for status, body, title in _FAILURES:
            fault = (status, {"Content-Type": "text/html"}, body)
            fake.fault = lambda _, __, fault=fault: fault
            answered, page = await administrator.get(f"{EXPLORER}?verb=Identify")

            assert answered == 200, title
            assert title in page
            assert "The Content-Type is text/html, not text/xml." in page, title


async def test_a_refused_connection_is_reported_as_such(server: Server, administrator: Browser) -> None:
    async with serve(FakeRepository()) as fake:
        _known(server, fake.url)

    _, page = await administrator.get(f"{EXPLORER}?verb=Identify")

    assert "The server does not accept connections on this port." in page
    assert "Raw data" not in page


async def test_a_link_on_another_site_fills_in_the_form_without_a_request(
    server: Server, administrator: Browser
) -> None:
    async with serve(FakeRepository(items=many(2))) as fake:
        _known(server, fake.url)
        async with administrator.http.get(
            f"{server.base_url}{EXPLORER}?verb=GetRecord&identifier=oai:x:1",
            headers={"Sec-Fetch-Site": "cross-site"},
        ) as answer:
            page = await answer.text()

    assert 'value="oai:x:1"' in page
    assert fake.asked == []


async def test_no_request_is_sent_before_the_not_before_time_of_a_repository(
    server: Server, administrator: Browser
) -> None:
    async with serve(FakeRepository()) as fake:
        _known(server, fake.url)
        with server.database.session() as session:
            later = utc_now().replace(year=utc_now().year + 1)
            session.execute(update(Repository).values(not_before=later))
            session.commit()
        _, page = await administrator.get(f"{EXPLORER}?verb=Identify")

    assert "asked for no requests until" in page
    assert fake.asked == []


async def test_requests_to_a_repository_are_limited_per_minute(
    server: Server, administrator: Browser
) -> None:
    server.app[EXPLORATIONS].limiter.per_minute = 2
    async with serve(FakeRepository()) as fake:
        _known(server, fake.url)
        for _ in range(3):
            _, page = await administrator.get(f"{EXPLORER}?verb=Identify")

    assert len(fake.asked) == 2
    assert "Too many requests to the repository" in page


async def test_viewers_cannot_use_the_explorer_and_see_no_tab(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    assert (await viewer.get(EXPLORER))[0] == 403
    assert "/explorer" not in (await viewer.get("/repositories/1"))[1]


async def test_no_requests_are_sent_to_private_addresses_unless_allowed(server: Server) -> None:
    app = create_app(
        server.settings.model_copy(
            update={"web": server.settings.web.model_copy(update={"private_addresses": False})}
        ),
        server.database,
    )
    async with serve(FakeRepository()) as fake:
        _known(server, fake.url)
        with server.database.session() as session:
            row = session.get_one(Repository, 1)
        asked = await app[EXPLORATIONS].ask(row, Verb.IDENTIFY, [])

    assert "private_addresses" in str(asked.error)
    assert fake.asked == []


async def test_the_api_sends_requests_to_the_repository(server: Server, administrator: Browser) -> None:
    headers = {"X-CSRF-Token": await administrator.token()}
    address = f"{server.base_url}/api/v1/repositories/1/questions"
    async with serve(FakeRepository(items=many(3), page_size=2)) as fake:
        _known(server, fake.url)
        question = {"verb": "ListIdentifiers", "arguments": {"metadataPrefix": "oai_dc"}}
        async with administrator.http.post(address, json=question, headers=headers) as answer:
            found = await answer.json()
        wrong = {"verb": "Identify", "arguments": {"identifier": "oai:x:1"}}
        async with administrator.http.post(address, json=wrong, headers=headers) as answer:
            assert answer.status == 422

    assert found["identifiers"] == ["oai:fake.example:0", "oai:fake.example:1"]
    assert (found["status"], found["resumption_token"], found["failure"]) == (200, "2|||", None)
    assert found["text"].startswith("<?xml")
    assert len(fake.asked) == 1
