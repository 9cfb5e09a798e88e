"""Imported records, sources and filtering sets over the API."""

import pytest

from tests.web.api.conftest import Program, Using


@pytest.mark.usefixtures("one_of_each")
async def test_records_are_searched_counted_and_shown(program: Program) -> None:
    found = (await program.get("/bibliographic-records?find=slovnik&language=cze")).body
    nothing = (await program.get("/bibliographic-records?find=slovnik&language=ger")).body
    counted = (await program.get("/bibliographic-records/facets?find=slovnik")).body
    shown = (await program.get("/bibliographic-records/1")).body

    assert [one["title"] for one in found["items"]] == ["Slovník staré češtiny"]
    assert nothing["items"] == []
    assert (counted["total"], counted["decades"]) == (1, [{"value": "1990", "count": 1}])
    assert shown["contributors"][0]["name"] == "Hus, Jan"
    assert {note["kind"] for note in shown["notes"]} == {"note", "kept", "broken"}


@pytest.mark.usefixtures("one_of_each")
async def test_a_source_is_configured_and_its_filtering_set_cannot_be_removed(program: Program) -> None:
    wish = {"after_harvest": True, "set_id": 1}
    changed = await program.ask("PUT", "/repositories/1/import-source", wish)
    missing = await program.ask("PUT", "/repositories/1/import-source", {"set_id": 99})
    mistyped = await program.ask("PUT", "/repositories/1/import-source", {"metadata_prefix": "marxml"})
    kept = await program.ask("DELETE", "/filtering-sets/1")
    await program.ask("PUT", "/repositories/1/import-source", {})
    removed = await program.ask("DELETE", "/filtering-sets/1")

    assert changed.body["set_name"] == "dictionaries"
    assert changed.body["settings"]["after_harvest"] is True
    assert [one["pointer"] for one in missing.body["errors"]] == ["/set_id"]
    assert [one["pointer"] for one in mistyped.body["errors"]] == ["/metadata_prefix"]
    assert "its formats: " in mistyped.body["errors"][0]["detail"]
    assert (missing.status, mistyped.status, kept.status, removed.status) == (422, 422, 409, 204)


@pytest.mark.usefixtures("one_of_each")
async def test_an_invalid_condition_is_named_by_its_json_pointer(program: Program) -> None:
    body = {"name": "maps", "conditions": ["655$a equals map", "nonsense"]}
    refused = await program.post("/filtering-sets", body)
    made = await program.post("/filtering-sets", {**body, "conditions": ["655$a equals map"]})
    again = await program.post("/filtering-sets", {**body, "conditions": ["655$a equals map"]})

    assert refused.status == 422
    assert refused.body["errors"][0]["pointer"] == "/conditions/1"
    assert (made.status, again.status) == (201, 422)


@pytest.mark.usefixtures("one_of_each")
async def test_partners_do_not_see_other_users_of_a_filtering_set(program: Program, using: Using) -> None:
    await program.ask("PUT", "/repositories/1/import-source", {"set_id": 1})
    async with using("Olga") as partner:
        seen = (await partner.get("/filtering-sets")).body["items"]
        records = (await partner.get("/bibliographic-records?repository=1")).body["items"]
        changed = await partner.ask("PUT", "/filtering-sets/1", {"conditions": ["245 exists"]})
        shown = (await partner.get("/filtering-sets/1")).body
        mine = (await partner.post("/filtering-sets", {"name": "maps", "conditions": ["245 exists"]})).body
        own = f"/filtering-sets/{mine['set_id']}"
        await program.ask("PUT", "/repositories/1/import-source", {"set_id": mine["set_id"]})
        edited = (await partner.ask("PUT", own, {"conditions": ["655 exists"]})).body

    assert [one["used_by"] for one in seen] == [[]]
    assert (shown["used_by"], edited["used_by"], edited["conditions"]) == ([], [], ["655 exists"])
    assert records == []
    assert changed.status == 403
