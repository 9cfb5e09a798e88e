"""Attacks of one organisation's partner on another organisation: its rules, files, names and numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect, select

from harvester.models import Repository
from harvester.repositories import add_repository
from harvester.rule_lab.models import Rule
from harvester.rule_lab.versions import RuleDraft, add_rule
from harvester.vocabulary import RuleKind
from manager.leader.dispatcher import launch_due
from manager.leader.planner import make_job
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.schedules.service import run_now
from manager.worker.claim import claim
from oai.errors import ExitCode
from tests.commands import zatva, zatva_beside
from tests.harvester.rule_lab.records import FILTERS
from tests.web.conftest import Browser, Server
from tests.web.repository import repository as answering
from tests.web.rows import a_repository, a_run, a_schedule
from web.auth.organisations import give_repository

_MZK, _NK = 1, 2
_REFUSAL = "Choose one of your organisation's rules"


@dataclass(frozen=True, kw_only=True)
class World:
    """Two organisations with a repository and a rule each: mzk (Olga's) and nk (Karel's)."""

    server: Server
    ours: int
    theirs: int
    rule: str
    """Path of mzk's rule below the data folder."""
    others: str

    def file(self, path: str) -> str:
        return str(self.server.settings.data.resolve() / path)

    def schedule(self, **columns: Any) -> int:
        """Insert a schedule of mzk, as SQL would, and return its number."""
        with self.server.database.session() as session:
            number = a_schedule(session, session.get_one(Repository, self.ours), **columns).id
            session.commit()
            return number


@pytest.fixture
def world(server: Server) -> World:
    with server.database.session() as session:
        paths, numbers = [], []
        for organisation, folder in ((_MZK, "telc"), (_NK, "praha")):
            row = a_repository(session, folder, folder)
            give_repository(session, row.repository_id, organisation)
            draft = RuleDraft(
                kind=RuleKind.FILTER, name="Culture", content=FILTERS, repository_id=row.repository_id
            )
            paths.append(add_rule(session, server.settings, draft, by=None).path)
            numbers.append(row.repository_id)
        session.commit()
    return World(server=server, ours=numbers[0], theirs=numbers[1], rule=paths[0], others=paths[1])


async def _api(browser: Browser, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    headers = {"X-CSRF-Token": await browser.token()}
    async with browser.http.request(
        method, f"{browser.base_url}/api/v1{path}", json=body, headers=headers
    ) as answer:
        return answer.status, await answer.json()


def _hostile(world: World) -> list[str]:
    data = world.server.settings.data
    (data / "house.xml").write_bytes(FILTERS)
    return [
        *(world.others, world.file(world.others), f"rules/../{world.others}"),
        *("house.xml", str(data / "house.xml"), "rules/no-such.xml", "zatva.toml"),
        *("/etc/passwd", "/no/such/file", "../../../../etc/passwd", "."),
    ]


async def test_a_partner_may_use_only_own_rules_and_other_paths_get_the_same_error(
    world: World, owner: Browser
) -> None:
    number = world.schedule()
    answers, pages = set(), set()
    for path in _hostile(world):
        for column in ("filter_file_path", "normalize_file_path"):
            body = {"repository_id": world.ours, "metadata_prefix": "oai_dc", column: path}
            for method, place in (("POST", "/schedules"), ("PUT", f"/schedules/{number}")):
                status, answer = await _api(owner, method, place, body)
                answers.add((status, str(answer["errors"]).replace(column, "COLUMN")))
            form = {"metadata_prefix": "oai_dc", column: path}
            for place in (f"/schedules/new?repository={world.ours}", f"/schedules/{number}/edit"):
                status, page, _ = await owner.post(place, form)
                pages.add((status, page.count(_REFUSAL.replace("'", "&#39;")), "line 1" in page))
    assert len(answers) == 1, answers
    assert _REFUSAL in next(iter(answers))[1]
    assert pages == {(422, 1, False)}


async def test_a_partner_selects_rules_from_a_list_and_sees_no_absolute_paths(
    world: World, owner: Browser
) -> None:
    _, page = await owner.get(f"/schedules/new?repository={world.ours}")
    assert f'<option value="{world.rule}">Culture</option>' in page
    assert world.others not in page

    form = {"metadata_prefix": "oai_dc", "frequency": "daily at 02:30", "filter_file_path": world.rule}
    assert (await owner.post(f"/schedules/new?repository={world.ours}", form))[0] == 303
    with world.server.database.session() as session:
        row = session.scalars(select(RecurringJob)).one()
        assert row.filter_file_path == world.file(world.rule)
        made = row.id
        number = a_run(session, session.get_one(Repository, world.ours), recurring_id=made).history_id
        session.commit()

    status, shown = await _api(owner, "GET", f"/schedules/{made}", {})
    assert (status, shown["filter_file_path"]) == (200, world.rule)
    change = {name: shown[name] for name in ("repository_id", "metadata_prefix", "filter_file_path")}
    assert (await _api(owner, "PUT", f"/schedules/{made}", change))[1]["filter_file_path"] == world.rule
    for path in (f"/schedules/{made}/edit", f"/runs/{number}/parameters", "/schedules"):
        _, page = await owner.get(path)
        assert str(world.server.settings.data) not in page
    _, page = await owner.get(f"/schedules/{made}/edit")
    assert f'<option value="{world.rule}" selected>' in page


async def test_the_wizard_refuses_rules_of_other_organisations(world: World, owner: Browser) -> None:
    async with answering() as address:
        for path in _hostile(world):
            steps = {"base_url": f"{address}/oai", "metadata_prefix": "oai_dc", "base_dir": "x"}
            steps |= {"frequency": "daily at 02:30", "filter_file_path": path}
            status, page, _ = await owner.post("/repositories/new", steps | {"do": "save"})
            assert (status, _REFUSAL.replace("'", "&#39;") in page) == (422, True), path
            status, page, _ = await owner.post("/repositories/new", steps | {"do": "sample"})
            assert "Cultur" not in page, path


@pytest.mark.parametrize("named", ["others", "none", "passwd", "house"])
def test_a_row_changed_by_sql_to_a_foreign_rule_is_set_aside_with_the_same_reason(
    world: World, named: str
) -> None:
    house = world.server.settings.data / "house.xml"
    house.write_bytes(FILTERS)
    files = {
        "others": world.file(world.others),
        "none": "/no/such/file",
        "passwd": "/etc/passwd",
        "house": str(house),
    }
    number = world.schedule(frequency=None, filter_file_path=world.file(world.rule))
    with world.server.database.session() as session:
        job = run_now(session, number)
        for row in (session.get_one(RecurringJob, number), job):
            row.filter_file_path = files[named]
        session.flush()
        make_job(session, number, world.server.settings.manager, data=world.server.settings.data)
        launch_due(session, world.server.settings.manager, world.server.settings.data)
        schedule = session.get_one(RecurringJob, number)
        reason = "filter_file_path is not a rule of mzk; choose one of the organisation's rules"
        assert (schedule.state, schedule.state_reason) == (RecurringState.SET_ASIDE, reason)
        assert inspect(job).was_deleted


def test_only_rows_without_an_organisation_may_use_any_rule_file(world: World, tmp_path: Path) -> None:
    (tmp_path / "any.xml").write_bytes(FILTERS)
    for owner, expected in ((None, JobStatus.QUEUED), ("mzk", JobStatus.SET_ASIDE)):
        with world.server.database.session() as session:
            house = add_repository(session, base_url=f"https://{owner}.example/oai")
            file = str(tmp_path / "any.xml")
            job = Job(repository_id=house.repository_id, filter_file_path=file, owner=owner)
            session.add(job)
            session.flush()
            launch_due(session, world.server.settings.manager, world.server.settings.data)
            assert job.status == expected


def test_a_rule_given_to_another_organisation_while_its_job_is_queued_is_not_read(world: World) -> None:
    number = world.schedule(frequency=None, filter_file_path=world.file(world.rule))
    data = world.server.settings.data
    with world.server.database.session() as session:
        first, second = run_now(session, number), run_now(session, number)
        for job in (first, second):
            job.status = JobStatus.QUEUED
        session.flush()
        assert claim(session, first.job_id, "host", data=data) is not None
        session.scalars(select(Rule).where(Rule.path == world.rule)).one().repository_id = world.theirs
        session.flush()
        assert claim(session, second.job_id, "host", data=data) is None
        assert inspect(second).was_deleted
        assert session.get_one(RecurringJob, number).state == RecurringState.SET_ASIDE


async def test_a_replay_refuses_rules_of_other_organisations(world: World, owner: Browser) -> None:
    number = world.schedule(normalize_file_path="/etc/passwd")
    with world.server.database.session() as session:
        run = a_run(session, session.get_one(Repository, world.ours), recurring_id=number, raw_path="x")
        kept = run.history_id
        session.commit()
        rule = session.scalars(select(Rule.rule_id).where(Rule.path == world.rule)).one()
    status, answer = await _api(owner, "POST", f"/rules/{rule}/rehearsal", {"run": kept})
    assert status == 422
    assert "normalize_file_path is not a rule of mzk" in answer["detail"]
    assert "/etc" not in str(answer)


def test_commands_for_an_organisation_refuse_rules_of_others(
    world: World, environment: dict[str, str]
) -> None:
    house = world.server.settings.data / "house.xml"
    house.write_bytes(FILTERS)
    given = ("schedule", "add", str(world.ours), "--frequency", "daily", "--filter-file")
    refused = zatva(environment, *given, str(house))
    assert refused.returncode == ExitCode.USAGE
    assert "--filter is not a rule of mzk" in refused.stderr
    assert zatva(environment, *given, world.file(world.rule)).returncode == ExitCode.DONE


def test_each_organisation_has_its_own_folder_of_rules(world: World) -> None:
    assert (world.rule, world.others) == (
        f"rules/organisation-{_MZK}/culture.xml",
        f"rules/organisation-{_NK}/culture.xml",
    )


async def test_organisations_have_separate_folders_and_errors_do_not_reveal_others(
    world: World, owner: Browser, colleague: Browser
) -> None:
    async def add(browser: Browser, folder: str) -> tuple[int, Any]:
        body = {"base_url": "https://new.example/oai", "base_dir": folder, "identify": False}
        return await _api(browser, "POST", "/repositories", body)

    for browser, organisation in ((owner, _MZK), (colleague, _NK)):
        status, added = await add(browser, "maps")
        assert (status, added["base_dir"]) == (201, f"organisation-{organisation}/maps")
    assert (await add(owner, "praha"))[0] == 201  # in use by another organisation, which must not be revealed

    for folder in ("maps", "MAPS", "Maps/old", "maps/a/b"):
        status, answer = await add(owner, folder)
        assert (status, "is taken or overlaps" in answer["detail"]) == (422, True), folder
        assert "repository 1" not in answer["detail"]
        assert ".example" not in answer["detail"]
    store = world.server.settings.store
    for folder in (str(store), str(store / "telc"), str(store / "praha"), "../praha", "/etc"):
        status, answer = await add(owner, folder)
        assert status == 422, folder


async def test_a_folder_that_differs_only_in_case_is_refused_by_every_interface(
    world: World, administrator: Browser, environment: dict[str, str]
) -> None:
    async with answering() as address:
        for folder in ("Telc", "TELC"):
            body = {"base_url": "https://new.example/oai", "base_dir": folder, "identify": False}
            status, answer = await _api(administrator, "POST", "/repositories", body)
            assert status == 422
            assert f"folder telc already belongs to repository {world.ours}" in answer["detail"]
            done = await zatva_beside(environment, "repository", "add", f"{address}/oai", folder)
            assert done.returncode == ExitCode.USAGE, done.stderr
            assert "already belongs to repository" in done.stderr
            steps = {"base_url": f"{address}/oai", "metadata_prefix": "oai_dc", "base_dir": folder}
            status, page, _ = await administrator.post("/repositories/new", steps | {"do": "save"})
            assert (status, "already belongs to repository" in page) == (422, True)


def test_an_external_folder_that_differs_only_in_case_is_refused_before_a_request(
    server: Server, environment: dict[str, str], tmp_path: Path
) -> None:
    with server.database.session() as session:
        add_repository(session, base_url="https://first.example/oai", base_dir=str(tmp_path / "maps"))
        session.commit()
    done = zatva(environment, "harvest", "http://127.0.0.1:9/oai", "--out", tmp_path / "Maps")
    assert (done.returncode, "already belongs to repository" in done.stderr) == (ExitCode.USAGE, True)


def test_giving_a_repository_to_another_organisation_reports_ended_rules(
    world: World, environment: dict[str, str]
) -> None:
    rule = ("notify", "add", "--mail", "olga@mzk.example", "--repository", str(world.ours))
    assert zatva(environment, *rule).returncode == ExitCode.DONE
    give = ("organisation", "give", "nk", str(world.ours))
    first, again = zatva(environment, *give), zatva(environment, *give)
    words = "the organisation that owned it had 1 notification rule, which ended"
    assert (words in first.stderr, words in again.stderr) == (True, False)
    assert zatva(environment, "notify", "list").stdout.startswith("no ")
