"""`zatva import`, as a user runs it."""

import json
from dataclasses import replace

from sqlalchemy import func, select, text

from harvester.bibliographic.importer import import_after_harvest
from harvester.bibliographic.models import BibliographicRow
from harvester.models import MetadataFormat, PrefixMapping
from tests.harvester.bibliographic.conftest import Catalogue, catalogue
from tests.harvester.bibliographic.marc import marcxml
from tests.harvester.library import Library

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


async def test_the_approval_of_deletions_is_followed_by_an_import(library: Library) -> None:
    def searchable() -> int | None:
        with library.database.session() as session:
            return session.scalar(select(func.count()).select_from(BibliographicRow))

    await library.run()
    library.delete(*range(12))
    held = await library.run(full=True)
    import_after_harvest(library.database, library.settings, library.repository_id)
    assert (held.status, searchable()) == ("held", 25)

    code, _, err = await library.command("job", "release", str(held.history_id), "-q")
    assert (code, err, searchable()) == (0, "", 13)


async def test_an_import_as_after_a_harvest_reads_what_changed_and_obeys_the_settings(
    catalogue: Catalogue,
) -> None:
    run = ("import", "run", "--repository", str(catalogue.repository_id), "--after-harvest")
    catalogue.imported()
    assert await catalogue.command(*run) == (0, "", "repository 1: no import is due\n")

    for number, expected in ((4, "1 new"), (5, "no import is due")):
        catalogue.put(number, "245 10 $aKniha", datestamp="2024-06-02T00:00:00Z")
        await catalogue.harvest()
        code, out, err = await catalogue.command(*run)
        assert (code, expected in out + err) == (0, True)
        await catalogue.command("import", "source", "1", "--after-harvest", "no")
    assert catalogue.rows("SELECT whole FROM bibliographic_import ORDER BY import_id") == [(True,), (False,)]


async def test_only_a_format_that_is_harvested_or_announced_is_chosen(catalogue: Catalogue) -> None:
    with catalogue.database.session() as session:
        announced = MetadataFormat(metadata_prefix="mods")
        session.add(announced)
        session.flush()
        session.add(PrefixMapping(repository_id=catalogue.repository_id, prefix_id=announced.prefix_id))
        session.commit()
    for prefix, expected in (("marxml", 2), ("mods", 0), ("marc21", 0)):
        code, _, err = await catalogue.command("import", "source", "1", "--format", prefix)
        assert (code, prefix) == (expected, prefix), err
        if expected:
            assert "repository 1 has no format 'marxml'; its formats: marc21, mods" in err

    with catalogue.database.session() as session:
        session.execute(text("DELETE FROM oai_record"))
        session.commit()
    code, _, _ = await catalogue.command("import", "source", "1", "--after-harvest", "no")
    assert code == 0, "a format that was chosen before stays possible"


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
