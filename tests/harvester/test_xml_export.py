"""Records as one XML document."""

import tracemalloc

from lxml import etree

from harvester.bibliographic.stored_marc import marc_source
from harvester.xml_export import marcxml_records, oai_records
from oai.vocabulary import OAI_NAMESPACE
from tests.harvester.bibliographic.marc import marcxml
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library

_OAI = f"{{{OAI_NAMESPACE}}}"
_MARC = "{http://www.loc.gov/MARC21/slim}"


def _document(library: Library, **chosen: str) -> etree._Element:
    pieces = oai_records(library.database, library.repository_id, library.folder, **chosen)
    return etree.fromstring(b"".join(pieces))


async def test_the_document_has_headers_metadata_and_deletions(library: Library) -> None:
    library.fake.items += [
        Item(identifier="oai:a:new", sets=("x",), title="Tel\u010d & <okol\u00ed>"),
        Item(identifier="oai:a:gone", sets=("x", "y"), deleted=True),
    ]
    await library.run()

    found = _document(library)

    records = {one.findtext(f"{_OAI}header/{_OAI}identifier"): one for one in found}
    assert (found.tag, len(found), len(records)) == (f"{_OAI}ListRecords", 27, 27)
    assert "Tel\u010d & <okol\u00ed>" in [one.text for one in records["oai:a:new"].iter()]
    gone = records["oai:a:gone"]
    assert len(gone) == 1
    assert gone[0].get("status") == "deleted"
    assert [one.text for one in gone[0].iter(f"{_OAI}setSpec")] == ["x", "y"]


async def test_one_format_or_one_identifier_is_chosen(library: Library) -> None:
    library.fake.items.append(Item(identifier="oai:a:new"))
    await library.run()

    assert len(_document(library, metadata_prefix="marc21")) == 0
    assert len(_document(library, metadata_prefix="oai_dc")) == 26
    (one,) = _document(library, identifier="oai:a:new")
    assert one.findtext(f"{_OAI}header/{_OAI}identifier") == "oai:a:new"


async def test_missing_and_altered_files_are_left_out_and_counted(library: Library) -> None:
    await library.run()
    missing, altered, *_others = sorted(library.folder.rglob("*.xml"))
    missing.unlink()
    altered.write_bytes(altered.read_bytes() + b" ")

    pieces = oai_records(library.database, library.repository_id, library.folder)
    text = b"".join(pieces).decode()

    assert text.count("<record ") == 23
    assert "<!-- left out because their files are missing or altered: 2 -->\n</ListRecords>" in text


async def test_marc_records_are_one_collection_in_the_namespace_of_marcxml(library: Library) -> None:
    other = marcxml("245 10 $aMapy").replace(' xmlns="http://www.loc.gov/MARC21/slim"', ' xmlns=""')
    library.fake.items = [
        Item(identifier="oai:a:1", metadata=marcxml("245 10 $aTel\u010d")),
        Item(identifier="oai:a:2", metadata=other),
        Item(identifier="oai:a:3", deleted=True),
    ]
    await library.run()

    source = marc_source(library.database, library.settings, library.repository_id)
    found = etree.fromstring(b"".join(marcxml_records(library.database, source)))

    titles = {one.text for one in found.iter(f"{_MARC}subfield")}
    assert (found.tag, [one.tag for one in found]) == (f"{_MARC}collection", [f"{_MARC}record"] * 2)
    assert titles == {"Mapy", "Tel\u010d"}


async def test_the_document_is_made_piece_by_piece(library: Library) -> None:
    library.fake.items = [Item(identifier=f"oai:a:{n}", title="x" * 100_000) for n in range(100)]
    await library.run()

    pieces = oai_records(library.database, library.repository_id, library.folder)
    next(pieces)
    tracemalloc.start()
    longest = max(len(piece) for piece in pieces)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert longest < 500_000
    assert peak < 3_000_000, "the whole document has 10 MB"
