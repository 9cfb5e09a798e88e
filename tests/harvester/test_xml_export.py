"""Records as one XML document."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

import zatva.libraries
from harvester.bibliographic.stored_marc import marc_source
from harvester.client.query_results import MARC21_NAMESPACE
from harvester.removal import begin_removal, remove_repository
from harvester.xml_export import marcxml_records, oai_records
from oai.errors import UsageError
from oai.vocabulary import OAI_NAMESPACE
from tests.harvester.bibliographic.marc import marcxml
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library

_OAI = f"{{{OAI_NAMESPACE}}}"
_MARC = f"{{{MARC21_NAMESPACE}}}"
_XCHANGE = "info:lc/xmlns/marcxchange-v2"
_ALEPH = (
    '<oai_marc xmlns="http://www.openarchives.org/OAI/1.1/oai_marc" status="n" type="a" level="m">'
    '<fixfield id="001">12</fixfield><varfield id="245" i1="0" i2="0"><subfield label="a">Mapy</subfield>'
    "</varfield></oai_marc>"
)
_SCHEMA = Path(zatva.libraries.__file__).parent / "marc21.xsd"


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


async def test_marc_of_every_kind_is_valid_marcxml(library: Library) -> None:
    plain = marcxml("245 10 $aMapy")
    exchanged = plain.replace(
        f'xmlns="{MARC21_NAMESPACE}"', f'xmlns="{_XCHANGE}" format="MARC21" type="Bibliographic"'
    )
    more = '<!-- c --><x:odd xmlns:x="urn:x"><x:subfield/></x:odd></record>'
    part = 'code="a" xml:lang="cs">M<i xmlns="urn:x">ap</i>y<'
    deleted = marcxml("245 10 $aGone", leader="00000dam a2200000 i 4500")
    collection = f'<collection xmlns="{MARC21_NAMESPACE}">{plain}{deleted}</collection>'
    odd = plain.replace("</record>", more).replace('code="a">Mapy<', part)
    library.fake.items = [
        Item(identifier=f"oai:a:{number}", metadata=metadata)
        for number, metadata in enumerate((exchanged, odd, collection, _ALEPH))
    ]
    await library.run()

    source = marc_source(library.database, library.settings, library.repository_id)
    found = etree.fromstring(b"".join(marcxml_records(library.database, source)))

    schema = etree.XMLSchema(etree.parse(_SCHEMA))
    assert [one.findtext(f".//{_MARC}subfield") for one in found] == ["Mapy"] * 4
    assert [schema.validate(one) or str(schema.error_log) for one in found] == [True] * 4


@pytest.mark.parametrize("with_marc", [False, True])
async def test_records_that_a_harvest_replaces_meanwhile_are_in_their_new_version(
    library: Library, *, with_marc: bool
) -> None:
    many = {f"oai:a:{n}": marcxml(f"245 10 $a{'x' * 20_000}") for n in range(30)}
    library.fake.items = [Item(identifier=name, metadata=metadata) for name, metadata in many.items()]
    await library.run()

    pieces = _pieces(library, with_marc=with_marc)
    first = next(pieces)
    library.fake.items = [
        Item(identifier=name, metadata=metadata.replace("xx", "new", 1), datestamp="2030-01-01T00:00:00Z")
        for name, metadata in many.items()
    ]
    await library.run()
    whole = first + b"".join(pieces)

    assert whole.count(b"<leader>") == 30
    assert b"left out" not in whole


@pytest.mark.parametrize("with_marc", [False, True])
async def test_the_document_does_not_end_if_the_repository_is_removed_meanwhile(
    library: Library, *, with_marc: bool
) -> None:
    metadata = marcxml(f"245 10 $a{'x' * 20_000}")
    library.fake.items = [Item(identifier=f"oai:a:{n}", metadata=metadata) for n in range(30)]
    await library.run()

    pieces = _pieces(library, with_marc=with_marc)
    next(pieces)
    with library.database.session() as session:
        begin_removal(session, library.repository_id)
        session.commit()
    with pytest.raises(UsageError, match="being removed"):
        list(pieces)
    remove_repository(library.database, library.repository_id)
    with pytest.raises(UsageError, match="no repository"):
        _document(library)


def _pieces(library: Library, *, with_marc: bool) -> Iterator[bytes]:
    if not with_marc:
        return oai_records(library.database, library.repository_id, library.folder)
    source = marc_source(library.database, library.settings, library.repository_id)
    return marcxml_records(library.database, source)


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
