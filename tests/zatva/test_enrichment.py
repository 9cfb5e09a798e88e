"""`zatva provider titles enrich`: from a harvested catalogue, or a file, to the records of titles."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp.pytest_plugin import AiohttpClient
from lxml import etree

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from tests.commands import results, zatva
from tests.harvester.bibliographic.conftest import Catalogue, catalogue
from tests.harvester.bibliographic.marc import converted, marcxml
from tests.harvester.fake_repository import Item
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Provider, archive, reply
from tests.provider.titles.conftest import Titles, entry, titles
from tests.provider.titles.test_repository import fields
from zatva.enrichment import as_catalogue_record

__all__ = ["archive", "catalogue", "titles"]

SITE = "http://www.example.cz/"
NUMBER = "web20132499695"
IDENTIFIER = "oai:aleph.example:NKC01-002499695"
FIXED = "130712c19989999xr x w o     0   b2cze d"
RECORD = marcxml(
    f"001 {NUMBER}",
    "041 0# $acze$aeng",
    "245 00 $aPříklad",
    "246 3# $aExample",
    "247 10 $aStarý příklad",
    "264 #1 $aBrno :$bPrvní,$c1998-2009",
    "264 31 $a[Praha] :$bNakladatelství Příklad,$c2009-",
    leader="00000nai a2200000 i 4500",
    fixed=FIXED,
)
ENRICH = ("provider", "titles", "enrich", "--source", "test")


@pytest.mark.parametrize(
    ("lines", "fixed", "expected"),
    [
        ((), FIXED, {"languages": ("cze",), "country": "xr", "first_published": 1998}),
        (("041 0# $aeng$acze",), FIXED, {"languages": ("cze", "eng")}),
        (("041 1# $aengcze",), FIXED.replace("cze", "mul"), {"languages": ("eng", "cze")}),
        ((), FIXED.replace("cze", "   ").replace("xr ", "xx "), {"languages": (), "country": None}),
        ((), FIXED.replace("xr ", "qq "), {"country": None}),
        ((), FIXED.replace("1998", "uuuu"), {"first_published": None}),
        (("260 ## $aPraha :$bNakladatel,$c1998-",), FIXED, {"place": "Praha"}),
        (("264 #1 $aPraha ;$aBrno :$bNakladatel",), FIXED, {"place": "Praha ; Brno"}),
        (("264 #1 $aBrno", "264 #4 $aOlomouc", "264 31 $a[Praha]"), FIXED, {"place": "Praha"}),
        (("264 #1 $a[Místo vydání není známé] :$bN",), FIXED, {"place": None}),
        (("260 ## $a[S.l.] :$bN",), FIXED, {"place": None}),
        (
            (
                "245 10 $6880-01$aZhongguo wang zhan /$cWang Xiaoming.",
                "264 #1 $6880-02$aBeijing :$bPub,$c[2013]-",
                "880 10 $6245-01/$a中国网站 /$c王小明.",
                "880 #1 $6264-02/$a北京 :$b出版社,$c[2013]-",
            ),
            FIXED.replace("1998", "20uu"),
            {"place": "Beijing", "alternative_names": ("中国网站",), "first_published": 2013},
        ),
        (
            ("245 00 $aPříklad =$bExample", "246 1# $iObálka:$aBeispiel", "247 10 $aStarý", "730 0# $aJiný"),
            FIXED,
            {"alternative_names": ("Example", "Beispiel", "Starý")},
        ),
    ],
)
def test_the_data_of_a_title_are_read_from_a_marc_record(
    lines: tuple[str, ...], fixed: str, expected: dict[str, object]
) -> None:
    made = converted("001 web1", *lines, leader="00000nai a2200000 i 4500", fixed=fixed)
    found = as_catalogue_record(made, "here")
    assert {name: getattr(found, name) for name in expected} == expected


def put(catalogue: Catalogue, item: Item) -> None:
    catalogue.fake.items[:] = [one for one in catalogue.fake.items if one.identifier != item.identifier]
    catalogue.fake.items.append(item)


async def enriched(catalogue: Catalogue, *words: str) -> dict[str, Any]:
    code, out, err = await catalogue.command(
        *ENRICH, "--repository", str(catalogue.repository_id), "--json", *words
    )
    assert code == 0, err
    report: dict[str, Any] = json.loads(out)
    return report


async def test_a_title_is_enriched_from_a_harvested_catalogue_record(
    catalogue: Catalogue, titles: Titles, archive: Archive, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add(SITE)
    titles.bring(
        entry("1", SITE, name="Příklad", catalogue_number="2499695"),
        entry("2", "http://b.cz/", catalogue_number="web0"),
    )
    put(catalogue, Item(identifier=IDENTIFIER, metadata=RECORD))
    await catalogue.harvest()
    planned = await enriched(catalogue, "--dry-run")
    report = await enriched(catalogue)
    assert planned == {**report, "dry_run": True}
    assert report["counts"] == {
        "new": 1, "changed": 0, "unchanged": 0, "removed": 0, "unknown": 1, "ambiguous": 0, "deleted": 0,
        "without_number": 0, "without_title": 3, "not_taken": 0, "dated": 1,
    }  # fmt: skip
    assert [one["outcome"] for one in report["titles"]] == ["new", "unknown"]
    assert {one["control_number"] for one in report["records_without_title"]} == {"nr1", "nr2", "nr3"}
    with titles.database.session() as session:
        titles.make_due(session)

    app = create_app(settings, titles.database, base_url=BASE_URL)
    client = Provider(client=await aiohttp_client(app)).client
    asked = {"verb": "ListRecords", "metadataPrefix": "marc21"}
    marc = (await reply(await client.get("/oai/titles", params=asked))).root
    (fixed,) = [str(one.text) for one in marc.iter("{*}controlfield") if one.get("tag") == "008"]
    assert (fixed[7:11], fixed[15:18], fixed[35:38]) == ("1998", "xr ", "cze")
    assert fields(marc, "041") == ["0  $a cze $a eng"]
    assert fields(marc, "246") == ["3  $a Example", "3  $a Starý příklad"]
    assert fields(marc, "264") == [" 1 $a Praha $b P $c 1998-"]
    mods = (await reply(await client.get("/oai/titles", params={**asked, "metadataPrefix": "mods"}))).root
    assert {"Praha", "xr", "1998", "cze", "eng", "Starý příklad"} <= texts(mods)
    dc = (await reply(await client.get("/oai/titles", params={**asked, "metadataPrefix": "oai_dc"}))).root
    assert {"cze", "eng", "Example", "Starý příklad"} <= texts(dc)
    page = await (await client.get(f"/titles/{titles['1'].key.hex}?lang=en")).text()
    for shown in ("<dd>Praha</dd>", "<dd>1998</dd>", "Czech, English", '"datePublished": "1998"'):
        assert shown in page

    put(catalogue, Item(identifier=IDENTIFIER, datestamp="2024-06-02T00:00:00Z", deleted=True))
    await catalogue.harvest()
    code, out, _ = await catalogue.command(*ENRICH, "--repository", str(catalogue.repository_id))
    assert code == 0
    assert "deleted: Příklad (2499695): its record has been deleted from the catalogue; it keeps" in out
    assert "unknown: Title 2 (web0): no record has this number" in out


def texts(root: etree._Element) -> set[str]:
    return {str(text) for text in root.itertext()}


def test_files_are_read_and_unreadable_records_have_exit_code_3(
    environment: dict[str, str], titles: Titles, tmp_path: Path
) -> None:
    titles.bring(entry("1", SITE, catalogue_number=NUMBER))
    whole, broken = tmp_path / "whole.xml", tmp_path / "broken.xml"
    whole.write_text(RECORD)
    broken.write_text(f"<collection>{RECORD}<record>")
    done = zatva(environment, *ENRICH, broken, "--dry-run")
    assert done.returncode == 3
    assert "not taken: broken.xml, all after record 1: " in done.stdout
    done = zatva(environment, *ENRICH, whole)
    assert done.returncode == 0
    assert "new: Title 1 (web20132499695): languages cze, eng; alternative names Example" in done.stdout
    assert "first published 1998, from whole.xml, record 1" in done.stdout
    (shown,) = results(environment, "provider", "titles", "show", "test:1")
    assert shown["catalogue_record"]["place"] == "Praha"
    titles.bring(entry("1", SITE))
    (removed,) = results(environment, *ENRICH, whole)
    assert (removed["counts"]["removed"], removed["titles"][0]["outcome"]) == (1, "removed")


WRONG = [
    ((), "give either --repository ID or files"),
    (("a.xml", "--repository", "1"), "give either --repository ID or files"),
    (("a.xml", "--format", "marc21"), "--format belongs to --repository"),
    (("a.xml",), "a.xml: no such file"),
    (("--repository", "9"), "no repository 9"),
]


def test_a_wrong_command_says_what_to_do(environment: dict[str, str], database: Database) -> None:
    del database
    for words, message in WRONG:
        done = zatva(environment, *ENRICH, *words)
        assert done.returncode == 2, words
        assert message in done.stderr


def test_titles_without_catalogue_numbers_cannot_be_enriched(
    environment: dict[str, str], titles: Titles, tmp_path: Path
) -> None:
    titles.bring(entry("1", SITE))
    (tmp_path / "whole.xml").write_text(RECORD)
    done = zatva(environment, *ENRICH, tmp_path / "whole.xml")
    assert done.returncode == 2
    assert "no title of the source 'test' has a catalogue number" in done.stderr
