"""A rule is replayed from its page: the changes are previewed, then a process applies them."""

import asyncio

import pytest
from sqlalchemy import func, select

from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.models import History, Record
from harvester.rule_lab.versions import RuleDraft, add_rule, save_version
from harvester.vocabulary import RuleKind
from manager.replays import RuleFiles
from oai.errors import TryLaterError
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run
from web.auth.organisations import give_repository
from web.rules.replay import REPLAYS, Replay

_RULES = b"""<normalize><selectionNamespaces>
xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
<mapping xpath="//dc:title"><newElement name="dc:subject" regexp="Title [12]">
<newValue>numbered</newValue></newElement></mapping></normalize>"""
REPLAY = "/rules/1/replay"


@pytest.fixture
async def kept(server: Server) -> int:
    """Add a run of mzk whose answers are stored, and a rule; return the run's number."""
    settings = server.settings
    keeping = settings.model_copy(
        update={"harvester": settings.harvester.model_copy(update={"keep_raw": True})}
    )
    async with serve(FakeRepository(items=many(4))) as served:
        with server.database.session() as session:
            row = a_repository(session)
            row.base_url = served.url
            session.commit()
        request = HarvestRequest(repository_id=1)
        await harvest(server.database, keeping, request, stop=asyncio.Event())
    with server.database.session() as session:
        give_repository(session, 1, 1)
        draft = RuleDraft(kind=RuleKind.NORMALISE, name="Numbers", content=_RULES, repository_id=1)
        add_rule(session, server.settings, draft, by="Olga")
        session.commit()
        return session.scalars(select(History.history_id)).one()


def _flags(server: Server) -> dict[str, int]:
    with server.database.session() as session:
        rows = session.execute(select(Record.update_flag, func.count()).group_by(Record.update_flag))
        return {flag: number for flag, number in rows}  # noqa: C416 rows, not pairs


async def test_a_replay_is_previewed_and_then_applied(server: Server, owner: Browser, kept: int) -> None:
    _, before = await owner.get(REPLAY)
    status, html, _ = await owner.post(REPLAY, {"run": str(kept), "do": "look"})
    untouched = _flags(server)
    begun, _, target = await owner.post(REPLAY, {"run": str(kept), "do": "apply"})
    again, _, _ = await owner.post(REPLAY, {"run": str(kept), "do": "apply"})
    while server.app[REPLAYS].of(1) is not None:  # noqa: ASYNC110 there is nothing to wait for
        await asyncio.sleep(0.02)
    _, after = await owner.get(REPLAY)

    assert f'<option value="{kept}"' in before
    assert status == 200, html
    assert "Records to change in the store: 2" in html
    assert "+" in html
    assert "&lt;dc:subject&gt;numbered" in html
    assert untouched == {"new": 4}
    assert (begun, target) == (303, f"{REPLAY}?run={kept}&done=replay-begun")
    assert again == 409
    assert server.app[REPLAYS].failure_of(1) == ""
    assert "did not end well" not in after
    with server.database.session() as session:
        replayed = session.scalars(select(History).where(History.replay_of == kept)).one()
        assert replayed.updated_count == 2


async def test_a_rule_changed_since_the_preview_is_not_applied(
    server: Server, owner: Browser, kept: int
) -> None:
    _, page, _ = await owner.post(REPLAY, {"run": str(kept), "do": "look"})
    with server.database.session() as session:
        save_version(session, server.settings, 1, _RULES.replace(b"[12]", b"[13]"), by="Karel")
        session.commit()

    stale = {"run": str(kept), "version": "1", "do": "apply"}
    status, answer, _ = await owner.post(REPLAY, stale)

    assert '<input type="hidden" name="version" value="1">' in page
    assert (status, "The rule was changed since the preview." in answer) == (422, True)
    assert server.app[REPLAYS].of(1) is None


async def test_a_run_without_stored_answers_cannot_be_replayed(
    server: Server, owner: Browser, kept: int
) -> None:
    with server.database.session() as session:
        session.get_one(History, kept).raw_path = None
        session.commit()

    _, page = await owner.get(REPLAY)
    status, html, _ = await owner.post(REPLAY, {"run": str(kept), "do": "look"})

    assert "No runs to replay." in page
    assert status == 422
    assert "run 1 has no stored answers" in html


async def test_only_users_with_rights_to_the_rule_and_the_run_replay_it(
    server: Server, owner: Browser, colleague: Browser, viewer: Browser, kept: int
) -> None:
    with server.database.session() as session:
        other = a_run(session, a_repository(session, name="Elsewhere", folder="other")).history_id
        session.commit()

    for browser, run, expected in ((colleague, kept, 404), (owner, other, 404), (viewer, kept, 403)):
        status, _, _ = await browser.post(REPLAY, {"run": str(run), "do": "apply"})
        assert status == expected
    assert server.app[REPLAYS].of(1) is None


async def test_a_preview_beyond_its_time_limit_ends_and_names_the_command(server: Server, kept: int) -> None:
    replays = server.app[REPLAYS]
    replays.seconds = 0.01

    with pytest.raises(TryLaterError, match=f"zatva rule replay {kept}"):
        await replays.preview(Replay(run=kept, repository_id=1, files=RuleFiles()))


async def test_the_api_previews_and_applies_a_replay(server: Server, owner: Browser, kept: int) -> None:
    headers = {"X-CSRF-Token": await owner.token()}
    api = server.base_url + "/api/v1/rules/1"

    async with owner.http.get(f"{api}/runs") as answer:
        runs = (await answer.json())["items"]
    async with owner.http.post(f"{api}/rehearsal", json={"run": kept}, headers=headers) as answer:
        html = await answer.json()
    async with owner.http.post(f"{api}/replay", json={"run": kept}, headers=headers) as answer:
        begun = answer.status
    # It continues as the one of the page does, which is awaited above; this one ends with the server.

    assert [run["history_id"] for run in runs] == [kept]
    assert html["counts"]["updated"] == 2
    assert begun == 202
    assert server.app[REPLAYS].of(1) == kept
