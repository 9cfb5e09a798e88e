"""`zatva import`, as a user runs it."""

import json
from dataclasses import replace

from sqlalchemy import text

from tests.harvester.bibliographic.conftest import Catalogue, catalogue
from tests.harvester.bibliographic.marc import marcxml

__all__ = ["catalogue"]


async def test_records_are_imported_selected_searched_and_shown(catalogue: Catalogue) -> None:
    number = str(catalogue.repository_id)
    code, out, err = await catalogue.command("import", "run", "--repository", number, "--by", "Eva", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["new"] == 3

    code, out, _ = await catalogue.command("import", "search", "kniha", "--json")
    (hit,) = [json.loads(line) for line in out.splitlines()]
    assert hit["title"] == "Knihy kacířů"

    await catalogue.command(
        "import",
        "source",
        number,
        "--record-url",
        "https://x.example/{control_number}",
        "--after-harvest",
        "yes",
    )
    code, out, _ = await catalogue.command("import", "show", str(hit["bibliographic_id"]), "--json")
    assert json.loads(out)["original_url"] == "https://x.example/nr1"

    code, out, _ = await catalogue.command("import", "list", "--json")
    assert {name: json.loads(out)[name] for name in ("started_by", "new", "updated", "total")} == {
        "started_by": "Eva", "new": 3, "updated": 0, "total": 3,
    }  # fmt: skip


async def test_a_harvest_is_followed_by_an_import_if_configured(catalogue: Catalogue) -> None:
    number = str(catalogue.repository_id)
    await catalogue.command("import", "set", "add", "slovniky", "--where", "655$a equals slovníky")
    _, out, _ = await catalogue.command(
        "import", "source", number, "--after-harvest", "yes", "--set", "slovniky"
    )
    assert {"after_harvest: yes", "set: slovniky"} <= set(out.splitlines())
    catalogue.put(4, "245 10 $aSlovník nářečí", "655 #7 $aslovníky", datestamp="2024-06-02T00:00:00Z")
    code, _, _ = await catalogue.command("harvest", number, "--format", "marc21", "--full", "-q")
    assert code == 0
    assert catalogue.titles() == ["Slovník nářečí", "Slovník staré češtiny"]
    _, out, _ = await catalogue.command("import", "status", "--json")
    assert (json.loads(out)["started_by"], json.loads(out)["filtered"]) == ("harvest", 2)


async def test_anew_rewrites_rows_of_an_earlier_version_and_removes_those_of_other_kinds(
    catalogue: Catalogue,
) -> None:
    number = str(catalogue.repository_id)
    authority = marcxml("100 1# $aHus, Jan", leader="00000nz  a2200000n  4500")
    catalogue.imported()
    with catalogue.database.session() as session:
        session.execute(text("UPDATE bibliographic_record SET title = title || '.', content_digest = ''"))
        session.commit()
    catalogue.fake.items[0] = replace(catalogue.fake.items[0], metadata=authority)
    await catalogue.harvest()
    code, out, _ = await catalogue.command("import", "run", "--repository", number, "--anew", "--json")
    facts = json.loads(out)
    assert (code, facts["updated"], facts["refused"], facts["deleted"]) == (0, 2, 1, 1)
    assert catalogue.titles() == ["The Czech Language", "Slovník staré češtiny"]
    _, out, _ = await catalogue.command("import", "refused", "--json")
    assert "MARC authority data" in json.loads(out)["reason"]


async def test_wrong_arguments_are_reported(catalogue: Catalogue) -> None:
    for arguments, words in (
        (("run",), "--all"),
        *(
            ((*words, "--repository", "99"), "no repository 99")
            for words in (("run",), ("status",), ("refused",), ("search", "a"))
        ),
        (
            ("source", str(catalogue.repository_id), "--record-url", "https://x.example/"),
            "the same page for all",
        ),
        (("set", "try", "--where", "245 is x"), "not a condition"),
    ):
        code, _, err = await catalogue.command("import", *arguments)
        assert code == 2
        assert words in err
