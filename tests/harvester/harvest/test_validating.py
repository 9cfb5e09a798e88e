"""Very strict harvests of a format with its own schema, and rules that exceed their limit."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select

from harvester.harvest.models import Quarantined
from harvester.harvest.result import RunOutcome
from harvester.rules.rule_limits import RuleLimits
from harvester.vocabulary import Level
from oai.database import Database
from oai.errors import ExitCode
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, Item, serve
from tests.harvester.library import Library
from tests.harvester.rules.schema_server import BOOK, NOTE, SchemaServer, serve_schemas


def book(number: int, content: str = "<pages>3</pages>", *, names: str = "") -> Item:
    location = f' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="{names}"'
    begun = f'<book xmlns="{BOOK}"{location if names else ""}>\n<title>A</title><author>Ann</author>'
    metadata = f"{begun}{content}</book>"
    return Item(identifier=f"oai:a:{number}", metadata=metadata)


def announcing(schema: str) -> FakeRepository:
    """Make the repository announce a single format with the schema."""
    formats = (
        "<ListMetadataFormats><metadataFormat><metadataPrefix>book</metadataPrefix>"
        f"<schema>{schema}</schema><metadataNamespace>{BOOK}</metadataNamespace></metadataFormat></ListMetadataFormats>"
    )

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if asked.get("verb") != "ListMetadataFormats":
            return good
        head, _, _ = good.decode().partition("<ListMetadataFormats>")
        return f"{head}{formats}</OAI-PMH>".encode()

    return FakeRepository(items=[book(number) for number in range(12)], fault=fault)


@pytest.fixture
async def server() -> AsyncIterator[SchemaServer]:
    async with serve_schemas() as server:
        yield server


@pytest.fixture
async def library(
    database: Database, settings: Settings, tmp_path: Path, server: SchemaServer
) -> AsyncIterator[Library]:
    async with serve(announcing(f"{server.url}/book.xsd")) as fake:
        library = Library(database, settings, fake, tmp_path / "out")
        library.change_settings(retries=0, max_wait=5.0, first_delay=0.01, rule_seconds=1.5)
        yield library


async def very_strict(library: Library) -> RunOutcome:
    return await library.run(metadata_prefix="book", validation=Level.VERY_STRICT)


async def test_the_announced_schema_is_fetched_once_for_all_harvests(
    library: Library, server: SchemaServer
) -> None:
    first = await very_strict(library)
    library.fake.items.append(book(12))
    second = await library.run(metadata_prefix="book", validation=Level.VERY_STRICT, full=True)

    assert (first.verdict, first.exit_code, first.counts["new"]) == ("complete", ExitCode.DONE, 12)
    assert (second.verdict, second.exit_code, second.counts["new"]) == ("complete", ExitCode.DONE, 1)
    assert set(server.asked.values()) == {1}
    assert len(list((library.settings.data / "schemas").iterdir())) == 4


async def test_an_invalid_record_ends_the_run_with_its_identifier_line_and_reason(
    library: Library,
) -> None:
    library.fake.items[11] = book(11, "<pages>0</pages>")

    outcome = await very_strict(library)

    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    assert outcome.counts["new"] == 10
    reason = library.history()[-1].failure_reason or ""
    assert reason.startswith("record 'oai:a:11' is not valid: line 4, element '{urn:example:book}pages': ")
    assert "minimum" in reason
    (warning,) = (one for one in outcome.warnings if "oai:a:11" in one)
    assert ": record 'oai:a:11': line 4, element '{urn:example:book}pages': " in warning


async def test_an_invalid_record_is_quarantined_with_its_bytes_and_the_line_of_the_fault(
    library: Library,
) -> None:
    library.fake.items[11] = book(11, "<pages>0</pages>")

    await very_strict(library)

    with library.database.session() as session:
        (kept,) = session.scalars(select(Quarantined))
    assert (kept.identifier, kept.failure_code) == ("oai:a:11", "record_invalid")
    assert kept.raw.startswith(b"<record")
    line = (kept.failure_facts or {})["line"]
    assert b"<pages>0</pages>" in kept.raw.split(b"\n")[line - 1]
    assert kept.history_id == library.history()[-1].history_id


@pytest.mark.parametrize("level", [Level.STRICT, Level.LOOSE])
async def test_other_levels_request_no_schema_and_store_an_invalid_record(
    library: Library, server: SchemaServer, level: Level
) -> None:
    library.fake.items[11] = book(11, "<pages>0</pages>")

    outcome = await library.run(metadata_prefix="book", validation=level)

    assert (outcome.verdict, outcome.counts["new"]) == ("complete", 12)
    assert not server.asked
    assert "ListMetadataFormats" not in {asked["verb"] for asked in library.fake.asked}


@pytest.mark.parametrize(
    ("path", "answer", "reason"),
    [
        ("/book.xsd", 404, "book.xsd, named by ListMetadataFormats, is not available: HTTP status 404"),
        ("/people/person.xsd", 404, "person.xsd, named by the schema http"),
        ("/parts/title.xsd", "<html/>", "it is not an XML Schema but 'html'"),
    ],
)
async def test_a_run_stops_before_its_first_record_if_a_schema_is_not_available(
    library: Library, server: SchemaServer, path: str, answer: str | int, reason: str
) -> None:
    server.files[path] = answer

    outcome = await very_strict(library)

    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    assert reason in (outcome.failure_reason or "")
    assert library.fake.lists() == []
    assert library.files() == {}


async def test_a_schema_named_by_a_record_is_fetched_between_pages(
    library: Library, server: SchemaServer
) -> None:
    note = f'<pages>3</pages><note xmlns="{NOTE}">{{}}</note>'
    names = f"{NOTE} {server.url}/note.xsd"
    library.fake.items[10] = book(10, note.format("2024-05-01"), names=names)
    assert (await very_strict(library)).exit_code == ExitCode.DONE

    library.fake.items[11] = book(11, note.format("May"), names=names)
    outcome = await library.run(metadata_prefix="book", validation=Level.VERY_STRICT, full=True)

    assert outcome.exit_code == ExitCode.STRICT_CHECK
    assert "record 'oai:a:11' is not valid" in (outcome.failure_reason or "")
    assert server.asked["/note.xsd"] == 1


KEEPING = f"""<filters>
<selectionNamespaces>xmlns:b='{BOOK}'</selectionNamespaces><filter xpath="//b:pages" regexp="3"/></filters>"""


async def test_a_schema_named_by_a_record_that_the_filter_excludes_is_not_needed(
    library: Library, server: SchemaServer, tmp_path: Path
) -> None:
    rules = tmp_path / "keeping.xml"
    rules.write_text(KEEPING)
    names = f"{NOTE} {server.url}/gone.xsd"
    library.fake.items[10] = book(10, f'<pages>4</pages><note xmlns="{NOTE}"/>', names=names)

    excluded = await library.run(metadata_prefix="book", validation=Level.VERY_STRICT, filter_file=rules)
    outcome = await library.run(metadata_prefix="book", validation=Level.VERY_STRICT, full=True)

    assert (excluded.verdict, excluded.counts["new"], excluded.counts["filtered"]) == ("complete", 11, 1)
    assert outcome.exit_code == ExitCode.STRICT_CHECK
    assert "gone.xsd, named by the record 'oai:a:10', is not available" in (outcome.failure_reason or "")


COSTLY = f"""<filters match="all">
<selectionNamespaces>xmlns:b='{BOOK}'</selectionNamespaces>
<filter xpath="count(//b:page[count(//b:page/following::b:page) = -1])" regexp="0"/></filters>"""


@pytest.fixture
def costly(tmp_path: Path) -> Path:
    file = tmp_path / "costly.xml"
    file.write_text(COSTLY)
    return file


async def test_a_lenient_run_rejects_a_record_on_which_an_xpath_takes_too_long(
    library: Library, costly: Path
) -> None:
    library.fake.items[3] = book(3, "<page/>" * 60_000)

    outcome = await library.run(metadata_prefix="book", filter_file=costly)

    assert (outcome.verdict, outcome.exit_code) == ("partial", ExitCode.RECORDS_REFUSED)
    assert (outcome.counts["new"], outcome.counts["invalid"]) == (11, 1)
    reason = f"{costly}, line 3, column 9: the XPath expression"
    assert any("oai:a:3" in warning and reason in warning for warning in outcome.warnings)
    with library.database.session() as session:
        kept = session.scalars(select(Quarantined)).one()
    assert (kept.identifier, b"<page/>" in kept.raw) == ("oai:a:3", True)


async def test_a_strict_run_ends_at_a_record_on_which_an_xpath_takes_too_long(
    library: Library, costly: Path
) -> None:
    library.fake.items[3] = book(3, "<page/>" * 60_000)

    outcome = await library.run(metadata_prefix="book", filter_file=costly, validation=Level.STRICT)

    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    assert (outcome.failure_reason or "").startswith(f"record 'oai:a:3': {costly}, line 3, column 9: ")


async def test_a_rule_that_exceeds_its_limit_on_every_record_ends_the_run(
    library: Library, costly: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harvester.harvest.run.RuleLimits", partial(RuleLimits, records=4))
    library.change_settings(rule_seconds=0.01)
    library.fake.items = [book(number, "<page/>" * 2000) for number in range(6)]

    outcome = await library.run(metadata_prefix="book", filter_file=costly)

    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.USAGE)
    assert "more than 4 records exceeded it; simplify the rule" in (outcome.failure_reason or "")
