"""GetRecord and ListMetadataFormats."""

from datetime import UTC, datetime, timedelta

from tests.provider.archive import BEGINNING, Archive
from tests.provider.conftest import Provider


async def test_a_deleted_record_consists_of_its_header(provider: Provider, archive: Archive) -> None:
    identifier = archive.add(deleted=True)
    answer = await provider.ask(verb="GetRecord", identifier=identifier, metadataPrefix="oai_dc")
    assert answer.deleted == [identifier]
    assert not answer.texts("//o:metadata")


async def test_a_record_with_a_future_datestamp_gets_id_does_not_exist(
    provider: Provider, archive: Archive
) -> None:
    identifier = archive.add(datestamp=datetime.now(UTC) + timedelta(days=1))
    for arguments in ({"verb": "GetRecord", "metadataPrefix": "oai_dc"}, {"verb": "ListMetadataFormats"}):
        answer = await provider.ask(identifier=identifier, **arguments)
        assert answer.codes == ["idDoesNotExist"]
        assert answer.request == {**arguments, "identifier": identifier}


async def test_a_record_that_was_just_changed_is_asked_for_later(
    provider: Provider, archive: Archive
) -> None:
    identifier = archive.add(datestamp=datetime.now(UTC) + timedelta(seconds=30))
    for arguments in ({"verb": "GetRecord", "metadataPrefix": "oai_dc"}, {"verb": "ListMetadataFormats"}):
        response = await provider.client.get("/oai", params={**arguments, "identifier": identifier})
        assert (response.status, "Retry-After" in response.headers) == (503, True)
    unknown = await provider.ask(verb="GetRecord", identifier=identifier, metadataPrefix="marcxml")
    assert unknown.codes == ["cannotDisseminateFormat", "idDoesNotExist"]


async def test_every_record_is_available_in_every_format(provider: Provider, archive: Archive) -> None:
    for identifier in (archive.add(), archive.add(deleted=True)):
        everywhere = await provider.ask(verb="ListMetadataFormats")
        here = await provider.ask(verb="ListMetadataFormats", identifier=identifier)
        prefixes = everywhere.texts("//o:metadataPrefix")
        assert prefixes == here.texts("//o:metadataPrefix")
        assert "oai_dc" in prefixes
        for prefix in prefixes:
            record = await provider.ask(verb="GetRecord", identifier=identifier, metadataPrefix=prefix)
            assert record.identifiers == [identifier]


async def test_the_response_date_is_the_clock_of_the_database_in_seconds(
    provider: Provider, archive: Archive
) -> None:
    archive.add(datestamp=BEGINNING)
    answer = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")
    shown = datetime.fromisoformat(answer.response_date)
    assert abs(datetime.now(UTC) - shown) < timedelta(minutes=5)
