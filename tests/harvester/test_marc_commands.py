"""`zatva import check`, `import export` and `import show --lines`, as a user runs them."""

import io
import json
from pathlib import Path

from pymarc import MARCReader

from tests.harvester.bibliographic.conftest import Catalogue, catalogue
from tests.harvester.bibliographic.marc import FIXED, LEADER, marcxml
from tests.harvester.fake_repository import Item

__all__ = ["catalogue"]


async def test_check_counts_faults_and_names_examples(catalogue: Catalogue) -> None:
    number = str(catalogue.repository_id)
    for place in range(4, 9):
        catalogue.put(place, "245 10 $aTitul", "300 1# $ax", "300 ## $zx", "300 ## $zy")
    await catalogue.harvest()
    code, out, err = await catalogue.command("import", "check", "--repository", number, "--json")
    *found, summary = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    by_place = {(one["code"], one["place"]): one for one in found}
    subfield = by_place["undefined_subfield", "300$z"]
    assert (subfield["level"], subfield["count"], subfield["records"]) == (2, 10, 5)
    assert (subfield["found"], len(subfield["identifiers"])) == ("x", 3)
    assert by_place["undefined_indicator", "300ind1"]["expected"] == "#"
    assert (summary["records"], summary["findings"]) == (8, sum(one["count"] for one in found))
    assert summary["kinds"] == len(found)

    code, out, _ = await catalogue.command("import", "check", "--repository", number, "--limit", "1")
    assert out.splitlines()[0].split()[:3] == ["Level", "Code", "Field"]
    assert len(out.splitlines()) == 3

    code, out, _ = await catalogue.command("import", "check", "--repository", number, "--level", "1")
    assert code == 0
    summary = "8 records checked on level 1, 8 without findings; 0 findings of 0 kinds"
    assert out == f"repository {number}, marc21: {summary}\n"
    _, out, _ = await catalogue.command("import", "check", "--repository", number, "--records", "2", "--json")
    assert json.loads(out.splitlines()[-1])["records"] == 2


async def test_check_and_export_name_records_that_they_cannot_read(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    number = str(catalogue.repository_id)
    catalogue.fake.items.append(
        Item(
            identifier="oai:fake.example:authority",
            datestamp="2024-01-01T00:00:00Z",
            metadata=marcxml("100 1# $aHus, Jan", leader="00000nz  a2200000n  4500"),
        )
    )
    catalogue.put(5, f"500 ## $a{'x' * 10_000}")
    await catalogue.harvest()
    ((name,),) = catalogue.rows("SELECT filename FROM oai_record WHERE identifier = 'oai:fake.example:1'")
    (catalogue.folder / name).unlink()
    code, out, err = await catalogue.command("import", "check", "--repository", number, "--level", "1")
    assert code == 3
    assert "1 not bibliographic; 1 missing or altered" in out
    assert "skipped oai:fake.example:1: " in err

    file = tmp_path / "records.mrc"
    code, out, err = await catalogue.command(
        "import", "export", "--repository", number, "--out", str(file), "--json"
    )
    facts = json.loads(out)
    assert (code, facts["records"], facts["unwritable"], facts["unreadable"], facts["other"]) == (
        3,
        2,
        1,
        1,
        1,
    )
    assert facts["bytes"] == file.stat().st_size
    assert "left out oai:fake.example:5: field 500 has 10,005 bytes" in err
    assert "left out oai:fake.example:1: " in err


async def test_export_writes_iso_2709_or_lines(catalogue: Catalogue, tmp_path: Path) -> None:
    number = str(catalogue.repository_id)
    file = tmp_path / "records.mrc"
    code, out, err = await catalogue.command("import", "export", "--repository", number, "--out", str(file))
    assert (code, err) == (0, "")
    assert out.startswith("3 records, ")
    records = {one["001"].data: one for one in MARCReader(io.BytesIO(file.read_bytes())) if one is not None}
    assert sorted(records) == ["nr1", "nr2", "nr3"]
    assert records["nr1"].title == "Knihy kacířů"

    code, out, err = await catalogue.command("import", "export", "--repository", number, "--as", "lines")
    assert (code, err.startswith("3 records, ")) == (0, True)
    assert "245 10 $a Knihy kacířů\n655 #7 $a edice $2 czenas\n\n" in out


async def test_a_record_is_shown_as_lines(catalogue: Catalogue) -> None:
    catalogue.imported()
    _, out, _ = await catalogue.command("import", "search", "kniha", "--json")
    (hit,) = [json.loads(line) for line in out.splitlines()]
    code, out, _ = await catalogue.command("import", "show", str(hit["bibliographic_id"]), "--lines")
    assert (code, out.splitlines()) == (
        0,
        [
            f"LDR    {LEADER}",
            f"008    {FIXED}",
            "001    nr1",
            "100 1# $a Hus, Jan $4 aut $7 jn19981001473",
            "245 10 $a Knihy kacířů",
            "655 #7 $a edice $2 czenas",
        ],
    )


async def test_wrong_arguments_are_reported(catalogue: Catalogue) -> None:
    number = str(catalogue.repository_id)
    for arguments, words in (
        (("check",), "--repository ID"),
        (("export", "--repository", "99"), "no repository 99"),
        (("check", "--repository", number, "--format", "oai_dc"), "harvested formats: marc21"),
    ):
        code, _, err = await catalogue.command("import", *arguments)
        assert code == 2
        assert words in err
