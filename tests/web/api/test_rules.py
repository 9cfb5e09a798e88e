"""Rules over the API."""

from tests.harvester.rule_lab.records import FILTERS
from tests.web.api.conftest import Program

_CONTENT = FILTERS.decode()


async def test_a_rule_is_added_saved_and_removed(program: Program) -> None:
    added = await program.post("/rules", {"name": "Culture", "content": _CONTENT})
    assert (added.status, added.body["number"], added.body["kind"]) == (201, 1, "filter")
    path = f"/rules/{added.body['rule_id']}"

    refused = await program.ask("PUT", path, {"content": _CONTENT.replace('"cultur"', '"("')})
    assert refused.status == 422
    assert refused.body["errors"][0]["detail"].startswith("line 3, column 32:")

    saved = await program.ask("PUT", path, {"content": _CONTENT.replace("cultur", "x")})
    assert (saved.status, saved.body["number"]) == (200, 2)
    versions = await program.get(f"{path}/versions")
    assert [one["number"] for one in versions.body["items"]] == [2, 1]
    assert (await program.ask("DELETE", path)).status == 204
    assert (await program.get("/rules")).body["items"] == []
