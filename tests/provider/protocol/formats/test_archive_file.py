"""Records contain the name of the archive file of a capture; `arc.name` omits `.gz`."""

from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import select, update

from oai.database import Database
from provider.holdings.identifiers import oai_identifier
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from tests.provider.archives import Page, write_pages
from tests.provider.conftest import Provider
from tests.provider.reading.test_cdx_files import cdxj

PAGE = Page(url="http://a.example/")
DATED = datetime.fromisoformat("2020-01-01T00:00:00Z")
PLACES = {
    "webarchive": "//w:archiveFile",
    "marc21": "//marc:datafield[@tag='773']/*[@code='t']",
    "mods": "//mods:relatedItem[@type='host']//mods:title",
}


async def file_names(provider: Provider, database: Database) -> set[str]:
    """The archive file's name in the record of the only document in each format, and in a look-up."""
    with database.session() as session:
        session.execute(update(Document).values(datestamp=DATED))  # in the past, so that it is listed at once
        session.commit()
        key = session.scalars(select(Document.key)).one()
    identifier = oai_identifier("archive.example", key)
    names = set[str]()
    for prefix, path in PLACES.items():
        reply = await provider.ask(verb="GetRecord", metadataPrefix=prefix, identifier=identifier)
        names.update(reply.texts(path))
    response = await provider.client.get("/cdx", params={"url": PAGE.url, "fl": "filename"})
    return names | {(await response.text()).strip()}


@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz", "x.arc.gz"])
async def test_records_name_an_archive_file_as_on_disk(
    provider: Provider, database: Database, tmp_path: Path, name: str
) -> None:
    index_file(database, write_pages(tmp_path / "files" / name, [PAGE]), IndexOptions(margin=1))
    assert await file_names(provider, database) == {name}


@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz"])
async def test_records_name_a_file_known_only_from_a_cdx_file_as_listed(
    provider: Provider, database: Database, tmp_path: Path, name: str
) -> None:
    archive = write_pages(tmp_path / "files" / name, [PAGE])
    index_file(database, cdxj(tmp_path / "x.cdxj", [PAGE], archive), IndexOptions(margin=1))
    assert await file_names(provider, database) == {name}


async def test_records_name_a_file_compressed_after_indexing_by_its_current_name(
    provider: Provider, database: Database, tmp_path: Path
) -> None:
    plain = write_pages(tmp_path / "files" / "x.warc", [PAGE])
    index_file(database, plain, IndexOptions(margin=1))
    assert await file_names(provider, database) == {"x.warc"}
    plain.unlink()
    packed = write_pages(tmp_path / "files" / "x.warc.gz", [PAGE])
    assert index_file(database, packed, IndexOptions(margin=1)).merged.new == 0
    with database.session() as session:
        assert session.scalars(select(Document.datestamp)).one() == DATED
    assert await file_names(provider, database) == {"x.warc.gz"}
