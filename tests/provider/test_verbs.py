"""Identify, GetRecord and ListMetadataFormats."""

from datetime import UTC, datetime, timedelta

from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from tests.provider.archive import BEGINNING, Archive
from tests.provider.conftest import BASE_URL, Provider, small_pages


async def test_identify_tells_what_the_settings_say(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    told = small_pages(
        settings, repository_name="A & B <archive>", admin_emails=("a@b.example", "c@d.example")
    )
    provider = Provider(client=await aiohttp_client(create_app(told, database, base_url=BASE_URL)))
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:repositoryName") == ["A & B <archive>"]
    assert answer.texts("//o:adminEmail") == ["a@b.example", "c@d.example"]
    assert answer.texts("//o:baseURL") == answer.texts("o:request") == [BASE_URL]


async def test_the_earliest_datestamp_is_that_of_the_earliest_record(
    provider: Provider, archive: Archive
) -> None:
    archive.add(datestamp=datetime(2021, 1, 1, tzinfo=UTC))
    archive.add(datestamp=datetime(2020, 6, 1, tzinfo=UTC), deleted=True)
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:earliestDatestamp") == ["2020-06-01T00:00:00Z"]


async def test_the_earliest_datestamp_is_never_in_the_future(provider: Provider, archive: Archive) -> None:
    archive.add(datestamp=datetime(2999, 1, 1, tzinfo=UTC))
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:earliestDatestamp") == [answer.response_date]


async def test_an_empty_archive_has_an_earliest_datestamp(provider: Provider) -> None:
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:earliestDatestamp") == ["1970-01-01T00:00:00Z"]


async def test_the_sample_identifier_is_a_record(provider: Provider, archive: Archive) -> None:
    identifier = archive.add()
    answer = await provider.ask(verb="Identify")
    assert identifier in [element.text for element in answer.root.iter() if element.text]


async def test_a_record_is_given_in_dublin_core(provider: Provider, archive: Archive) -> None:
    identifier = archive.add("http://www.example.cz/?a=1&b=<2>", title="A \x0b title", mime_type="image/png")
    answer = await provider.ask(verb="GetRecord", identifier=identifier, metadataPrefix="oai_dc")
    assert answer.identifiers == [identifier]
    assert answer.texts("//o:datestamp") == ["2020-01-01T00:00:00Z"]
    assert answer.texts("//dc:title") == ["A  title"]
    assert answer.texts("//dc:identifier") == ["http://www.example.cz/?a=1&b=<2>"]
    assert answer.texts("//dc:date") == ["2020-01-02T00:00:00Z"]
    assert answer.texts("//dc:format") == ["image/png"]
    assert answer.texts("//dc:type") == ["Image"]
    assert answer.texts("//dc:source") == ["www.example.cz"]


async def test_a_deleted_record_is_its_header(provider: Provider, archive: Archive) -> None:
    identifier = archive.add(deleted=True)
    answer = await provider.ask(verb="GetRecord", identifier=identifier, metadataPrefix="oai_dc")
    assert answer.deleted == [identifier]
    assert not answer.texts("//o:metadata")


async def test_a_record_that_is_not_due_does_not_exist(provider: Provider, archive: Archive) -> None:
    identifier = archive.add(datestamp=datetime.now(UTC) + timedelta(days=1))
    for arguments in ({"verb": "GetRecord", "metadataPrefix": "oai_dc"}, {"verb": "ListMetadataFormats"}):
        answer = await provider.ask(identifier=identifier, **arguments)
        assert answer.codes == ["idDoesNotExist"]
        assert answer.request == {**arguments, "identifier": identifier}


async def test_every_record_can_be_had_in_every_format(provider: Provider, archive: Archive) -> None:
    for identifier in (archive.add(), archive.add(deleted=True)):
        everywhere = await provider.ask(verb="ListMetadataFormats")
        here = await provider.ask(verb="ListMetadataFormats", identifier=identifier)
        prefixes = everywhere.texts("//o:metadataPrefix")
        assert prefixes == here.texts("//o:metadataPrefix")
        assert "oai_dc" in prefixes
        for prefix in prefixes:
            record = await provider.ask(verb="GetRecord", identifier=identifier, metadataPrefix=prefix)
            assert record.identifiers == [identifier]


async def test_the_answers_date_is_the_databases_clock_in_whole_seconds(
    provider: Provider, archive: Archive
) -> None:
    archive.add(datestamp=BEGINNING)
    answer = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")
    shown = datetime.fromisoformat(answer.response_date)
    assert abs(datetime.now(UTC) - shown) < timedelta(minutes=5)
