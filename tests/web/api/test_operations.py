"""What single operations do, and what every operation has in common."""

import asyncio
import html
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from sqlalchemy import func, select

from harvester.models import History
from harvester.vocabulary import RunStatus
from manager.models import Job, JobStatus, RecurringJob, StoreAuditSchedule
from oai.audit import AuditEntry
from oai.limits import RateLimit
from oai.rights import RIGHTS, Right, Role, Scope
from tests.harvester.rule_lab.records import FILTERS
from tests.web.api.conftest import CONTENT, Program, Using
from tests.web.conftest import Browser, Server
from tests.web.repository import repository
from tests.web.rows import a_repository, a_run
from web.api.dispatch import CSRF_HEADER, LIMITER
from web.api.operations import PLACES, Operation
from web.api.table import OPERATIONS, whole_document
from web.auth.users import change_role, get_user
from web.schedules.api import NewSchedule, ScheduleChange

_JSON: Final = {"Content-Type": "application/json"}
_SOON: Final = (datetime.now(UTC) + timedelta(days=1)).isoformat()
_UNKNOWN: Final = "e3e70682-c209-4cac-a29f-6fbed82c07cd"
_PACKED: Final = _JSON | {"Content-Encoding": "gzip"}


def _address(operation: Operation) -> str:
    path = operation.path
    for name in operation.places:
        path = path.replace(f"{{{name}}}", str(PLACES[name].example))
    return path


async def test_every_operation_requires_a_token(using: Using) -> None:
    assert len(OPERATIONS) > 60
    async with using(None) as stranger:
        for operation in OPERATIONS:
            answer = await stranger.ask(operation.method, _address(operation))
            assert answer.status == 401, operation.name
            assert answer.headers["Content-Type"].startswith("application/problem+json"), operation.name
            assert answer.headers["WWW-Authenticate"].startswith("Bearer"), operation.name


@pytest.mark.usefixtures("one_of_each")
@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("Viktor", Role.VIEWER),
        # In a browser's session, a curator asks for each of them in `test_standing_users.py`.
        pytest.param("Katka", Role.CURATOR, marks=pytest.mark.long),
    ],
)
async def test_operations_are_refused_to_roles_without_the_right(using: Using, name: str, role: Role) -> None:
    own = RIGHTS[role] | {Right.LOOK_AROUND}
    async with using(name) as program:
        for operation in OPERATIONS:
            if operation.right not in own:
                answer = await program.ask(operation.method, _address(operation))
                assert answer.status == 403, operation.name
                assert answer.body["status"] == 403


@pytest.mark.usefixtures("one_of_each")
async def test_a_token_allows_only_operations_of_its_scopes(using: Using) -> None:
    async with using("Alena", Scope.READ) as reader:
        assert (await reader.get("/repositories/1")).status == 200
        assert (await reader.ask("DELETE", "/repositories/1")).status == 403
        assert (await reader.get("/users")).status == 403


@pytest.mark.usefixtures("one_of_each")
async def test_a_refusal_says_whether_the_token_or_the_role_lacks_the_right(
    server: Server, using: Using
) -> None:
    lacks_scope, asks_role = "The token does not have the required scope.", "Your role"
    async with using("Olga", Scope.READ, Scope.HARVEST) as both, using("Olga", Scope.READ) as reader:
        assert (await reader.post("/schedules/1/pause")).body["detail"] == lacks_scope
        assert (await both.get("/users")).body["detail"].startswith(asks_role)
        with server.database.session() as session:
            change_role(session, get_user(session, "Olga").user_id, Role.VIEWER, organisation_id=1)
            session.commit()
        for program in (both, reader):
            answer = await program.post("/schedules/1/pause")
            assert answer.body["detail"] == "Your role is viewer: you cannot make changes."
    async with using("Katka") as curator:
        assert (
            (await curator.post("/schedules/1/pause")).body["detail"].startswith("Your role does not allow")
        )


@pytest.mark.usefixtures("one_of_each")
async def test_repositories_of_others_are_not_found_by_a_partner(using: Using) -> None:
    async with using("Olga") as partner:
        assert (await partner.get("/repositories")).body["items"] == []
        for path in (
            "/repositories/1",
            "/schedules/1",
            "/runs/1",
            "/records/1",
            "/errors/1",
            "/runs/1/errors",
        ):
            assert (await partner.get(path)).status == 404, path
        assert (await partner.get("/schedules")).body["items"] == []
        assert (await partner.get("/runs")).body["items"] == []


@pytest.mark.usefixtures("one_of_each")
async def test_a_change_is_refused_if_the_object_was_changed_since_it_was_read(program: Program) -> None:
    read = await program.get("/schedules/1")
    plan = {name: read.body[name] for name in ScheduleChange.model_fields}
    mine = {"headers": {"If-Match": f'"other", {read.headers["Etag"]}'}}
    first = await program.ask("PUT", "/schedules/1", plan | {"priority": -3}, **mine)
    second = await program.ask("PUT", "/schedules/1", plan | {"priority": 7}, **mine)
    assert (first.status, second.status, second.body["title"]) == (200, 412, "Changed in the meantime")
    again = await program.get("/schedules/1")
    assert (again.body["priority"], again.headers["Etag"]) == (-3, first.headers["Etag"])
    assert (await program.post("/schedules/1/pause")).status == 200
    assert (await program.get("/schedules/1")).headers["Etag"] == again.headers["Etag"]
    for method, path, given, status in (
        ("PATCH", "/repositories/1", "nonsense", 412),
        ("PATCH", "/repositories/1", '"nonsense"', 412),
        ("PATCH", "/repositories/1", "*", 200),
        ("DELETE", "/tokens/1", '"nonsense"', 412),
        ("DELETE", "/schedules/1", mine["headers"]["If-Match"], 412),
        ("DELETE", "/schedules/1", again.headers["Etag"], 204),
    ):
        body = {"repository_name": "Telč"} if method == "PATCH" else None
        answer = await program.ask(method, path, body, headers={"If-Match": given})
        assert answer.status == status, (method, path, given, answer.body)


@pytest.mark.usefixtures("one_of_each")
async def test_an_import_does_not_change_the_etag_of_the_settings(program: Program) -> None:
    read = await program.get("/repositories/1/import-source")
    assert (await program.post("/repositories/1/imports")).status == 202
    again = await program.get("/repositories/1/import-source")
    assert (again.body["state"] != read.body["state"], again.headers["Etag"]) == (True, read.headers["Etag"])


@pytest.mark.usefixtures("one_of_each")
async def test_only_one_of_concurrent_changes_of_a_version_is_accepted(program: Program) -> None:
    tag = (await program.get("/repositories/1")).headers["Etag"]
    answers = await asyncio.gather(
        *(
            program.ask("PATCH", "/repositories/1", {"repository_name": name}, headers={"If-Match": tag})
            for name in ("Anna", "Adam", "Petr")
        )
    )
    assert sorted(answer.status for answer in answers) == [200, 412, 412]


@pytest.mark.usefixtures("one_of_each")
async def test_a_session_needs_its_form_token_in_a_header(administrator: Browser) -> None:
    url = administrator.base_url + "/api/v1/schedules/1/pause"
    for headers, status in (
        ({}, 403),
        ({CSRF_HEADER: "x"}, 403),
        ({CSRF_HEADER: await administrator.token(), "Sec-Fetch-Site": "cross-site"}, 403),
        ({CSRF_HEADER: await administrator.token(), "Origin": "https://elsewhere.example"}, 403),
        ({CSRF_HEADER: await administrator.token()}, 200),
    ):
        async with administrator.http.post(url, headers=headers) as answer:
            assert answer.status == status, headers


_FAULTS: Final[tuple[tuple[str, str, dict[str, Any], int, str], ...]] = (
    ("GET", "/nowhere", {}, 404, "The API has no operation at this address; see /api/docs."),
    ("GET", "/repositories/99", {}, 404, "Repository 99"),
    ("PUT", "/jobs", {}, 405, "request method"),
    ("POST", "/probe", {"data": "{", "headers": _JSON}, 400, "not valid JSON"),
    ("POST", "/probe", {"data": "x=1"}, 415, "application/json"),
    ("POST", "/probe", {}, 415, "there is no body; send JSON as application/json"),
    ("POST", "/probe", {"data": BytesIO(b"x" * 2_000_000), "headers": _JSON}, 413, "larger"),
    (
        "POST",
        "/probe",
        {"data": b"abcd", "headers": _PACKED, "expect100": True},
        400,
        "not compressed",
    ),
    ("POST", "/probe", {"json": {"base_url": "ftp://x/"}}, 422, "errors"),
    ("GET", "/runs?cursor=nonsense", {}, 422, "cursor"),
    ("GET", "/runs?colour=red", {}, 422, "errors"),
    ("GET", "/runs?limit=1&limit=2", {}, 422, "repeated"),
    ("GET", "/search?q=", {}, 422, "errors"),
    ("GET", "/search?q=%20", {}, 422, "errors"),
    ("GET", "/search?q=%00", {}, 422, "errors"),
    ("POST", "/runs/1/release", {}, 409, "not held"),
    ("DELETE", "/archive/collections/collection", {}, 409, "root"),
    ("GET", "/archive/indexing/99/files", {}, 404, "does not exist"),
    ("PUT", "/repositories/99999/owner", {"json": {"organisation_id": None}}, 404, "does not exist"),
    ("GET", f"/archive/harvesters/{_UNKNOWN}/lists", {}, 404, "no longer listed"),
    (
        "POST",
        "/archive/exports",
        {"json": {"url": "http://a.example/", "since": _SOON, "until": "2020-01-01T00:00:00Z"}},
        422,
        "errors",
    ),
    ("POST", "/archive/collections", {"json": {"set_spec": "serials", "name": "x"}}, 409, "already exists"),
)
"""Requests, each with its method, path and body, and the status and words of the answer."""


@pytest.mark.usefixtures("one_of_each")
async def test_errors_are_problem_documents_that_state_what_was_found(program: Program) -> None:
    for method, path, more, status, words in _FAULTS:
        answer = await program.ask(method, path, **more)

        assert answer.status == status, (path, answer.body)
        assert answer.headers["Content-Type"].startswith("application/problem+json"), path
        assert answer.body["type"] == f"/api/docs#fault-{status}", path
        assert words in answer.body["detail"], path


async def test_errors_about_unknown_objects_are_in_the_callers_language(program: Program) -> None:
    for path, words in (
        ("/nowhere", "API nemá na této adrese žádnou operaci; viz /api/docs."),
        ("/repositories/99", "Repozitář 99 neexistuje; možná byl odstraněn."),
        ("/archive/exports/99", "Připravený soubor 99 neexistuje."),
        ("/archive/takedowns/99", "znepřístupnění 99 neexistuje"),
    ):
        answer = await program.ask("GET", path, headers={"Accept-Language": "cs"})
        assert (answer.status, answer.body["detail"]) == (404, words)


async def test_invalid_values_are_named_by_their_json_pointers(program: Program) -> None:
    body = {"base_url": "https://x.example/oai", "base_dir": "../up", "colour": "red"}

    answer = await program.post("/repositories", body)

    assert answer.status == 422
    assert sorted(fault["pointer"] for fault in answer.body["errors"]) == ["/base_dir", "/colour"]


async def test_an_internal_error_reveals_no_details(server: Server, program: Program) -> None:
    with server.database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE oai_history RENAME TO elsewhere")

    answer = await program.get("/runs")

    assert answer.status == 500
    assert "elsewhere" not in str(answer.body)


async def test_lists_are_read_to_their_end_by_next_links(server: Server, program: Program) -> None:
    with server.database.session() as session:
        for number in range(1, 6):
            telc = a_repository(session, folder=f"r{number}")
            a_run(session, telc)
        session.commit()
    for path, key in (("/repositories", "repository_id"), ("/runs", "run_id")):
        found, following, pages = [], f"/api/v1{path}?limit=2", 0
        while following:
            answer = await program.get(following)
            found += [item[key] for item in answer.body["items"]]
            following, pages = answer.body["next"], pages + 1
            assert ("Link" in answer.headers) is (following is not None)
        assert pages == 3
        assert sorted(found) == [1, 2, 3, 4, 5]


async def test_a_repository_is_added_refreshed_changed_and_removed(server: Server, program: Program) -> None:
    async with repository() as address:
        body = {"base_url": f"{address}/oai", "base_dir": "libraries/telc"}
        added = await program.post("/repositories", body)
        assert added.status == 201, added.body
        refreshed = await program.post("/repositories/1/refresh")
        probed = await program.post("/probe", {"base_url": f"{address}/oai"})
    assert added.body["repository_name"] == refreshed.body["repository_name"] == "Library of Telč"
    assert probed.body["repository_name"] == "Library of Telč"
    assert len((await program.get("/repositories/1/sets")).body["items"]) == 3
    formats = (await program.get("/repositories/1/formats")).body["items"]
    assert "marc21" in {form["metadata_prefix"] for form in formats}
    changed = await program.ask("PATCH", "/repositories/1", {"deletion_policy": "mark", "brake_updates": 5})
    assert (changed.body["deletion_policy"], changed.body["brake_updates"]) == ("mark", 5)
    moved = await program.ask("PATCH", "/repositories/1", {"base_url": "https://moved.example/oai"})
    assert moved.body == {**changed.body, "base_url": "https://moved.example/oai"}
    for wrong in (None, "", "ftp://moved.example/", "z3950://moved.example:210/books"):
        refused = await program.ask("PATCH", "/repositories/1", {"base_url": wrong})
        assert refused.status == 422
        assert (
            "base_url" in (problem := str(refused.body)) or "base URL" in problem or "address" in problem
        ), problem
    assert (await program.ask("DELETE", "/repositories/1")).status == 204
    assert (await program.get("/repositories/1")).status == 404
    with server.database.session() as session:
        noted = session.scalars(select(AuditEntry).where(AuditEntry.action == "repository.add")).one()
        assert (noted.user_name, noted.via, noted.object_id) == ("Alena", "token", "1")
        assert (noted.object_name, noted.before) == ("Library of Telč", None)
        assert noted.after is not None
        assert noted.after["repository_name"] == "Library of Telč"


_NOTED: Final[Sequence[tuple[str, str, dict[str, object], str, dict[str, object]]]] = (
    ("POST", "/mutes", {"kind": "maintenance", "note": "disks", "ends": _SOON}, "mute", {"note": "disks"}),
    (
        "POST",
        "/archive/takedowns",
        {"targets": ["http://a.example/*"], "reason": "privacy", "requester": "Eva"},
        "takedown",
        {"reason": "privacy"},
    ),
    ("POST", "/archive/takedowns/1/lift", {"reason": "over"}, "takedown", {"lifted_because": "over"}),
    ("POST", "/store-audit-schedules", {"frequency": "weekly"}, "audit schedule", {"frequency": "weekly"}),
    ("POST", "/rules", {"name": "Culture", "content": FILTERS.decode()}, "rule", {"name": "Culture"}),
    ("PUT", "/rules/1", {"content": FILTERS.decode().replace("cultur", "x")}, "rule", {"version": 2}),
    ("PUT", "/repositories/1/import-source", {}, "import source", {"after_harvest": False}),
)
"""Changes, each with the kind of its object and some of the values that the audit log has."""


@pytest.mark.usefixtures("one_of_each")
async def test_the_audit_log_has_the_values_of_each_change(server: Server, program: Program) -> None:
    for method, path, body, kind, values in _NOTED:
        answer = await program.ask(method, path, body)
        assert answer.status in {200, 201}, (path, answer.body)

        with server.database.session() as session:
            entry = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id.desc()).limit(1)).one()
        assert (entry.object_kind, entry.after) == (kind, {**(entry.after or {}), **values}), path
        assert "Eva" not in str(entry.after)


@pytest.mark.usefixtures("one_of_each")
async def test_changes_of_objects_that_changed_meanwhile_are_conflicts(
    server: Server, program: Program
) -> None:
    taken = {"targets": ["http://a.example/*"], "reason": "privacy", "requester": "Eva"}
    await program.post("/archive/takedowns", taken)
    await program.post("/rules", {"name": "Culture", "content": FILTERS.decode()})
    edited = {"content": FILTERS.decode().replace("cultur", "nature"), "based_on": 1}
    later = {"content": FILTERS.decode().replace("cultur", "music"), "based_on": 1}

    assert (await program.post("/archive/takedowns/1/lift", {"reason": "over"})).status == 200
    assert (await program.post("/archive/takedowns/1/lift", {"reason": "over"})).status == 409
    assert (await program.ask("PUT", "/rules/1", edited)).status == 200
    assert (await program.ask("PUT", "/rules/1", later)).status == 409
    with server.database.session() as session:
        session.get_one(History, 1).status = RunStatus.COMPLETED
        session.commit()
    assert (await program.post("/runs/1/acknowledge", {"note": "x"})).status == 409


def test_no_default_is_documented_for_fields_that_stay_as_they_are_if_omitted() -> None:
    schemas = whole_document()["components"]["schemas"]
    for name in ("RepositoryChange", "CollectionChange"):
        assert not [one for one, schema in schemas[name]["properties"].items() if "default" in schema], name
    limits = schemas["ChangedOrganisation"]["properties"]
    assert "default" not in limits["max_records"] | limits["max_bytes"]
    assert "anyOf" not in schemas["RepositoryChange"]["properties"]["base_url"]


@pytest.mark.usefixtures("one_of_each")
async def test_null_is_refused_as_a_name_or_policy(program: Program) -> None:
    for path, name in (
        ("/repositories/1", "deletion_policy"),
        ("/archive/collections/collection:serials", "name"),
    ):
        answer = await program.ask("PATCH", path, {name: None})
        assert (answer.status, answer.body["errors"][0]["pointer"]) == (422, f"/{name}")


async def test_a_failure_of_the_repository_is_answered_with_status_424(program: Program) -> None:
    async with repository() as address:
        answer = await program.post("/probe", {"base_url": f"{address}/closed"})

    assert (answer.status, answer.body["title"]) == (424, "No valid answer from the repository")
    assert "403" in answer.body["detail"]


@pytest.mark.usefixtures("one_of_each")
async def test_a_schedule_is_added_changed_paused_run_and_removed(program: Program) -> None:
    body = {"repository_id": 1, "metadata_prefix": "oai_dc", "frequency": "daily at 02:30"}
    forecast = await program.post("/schedules/forecast", body)
    added = await program.post("/schedules", body)
    assert added.status == 201, added.body
    number = added.body["schedule_id"]
    assert (forecast.status, forecast.body["complete_runs"], len(forecast.body["runs"])) == (200, 1, 7)
    changed = await program.ask("PUT", f"/schedules/{number}", {**body, "frequency": "every 6 hours"})
    assert changed.body["frequency"] == "every 6 hours"
    assert (await program.post(f"/schedules/{number}/pause")).body["state"] == "paused"
    assert (await program.post(f"/schedules/{number}/resume")).body["state"] == "new"
    started = await program.post(f"/schedules/{number}/run")
    jobs = (await program.get("/jobs?repository=1")).body["items"]
    assert started.body["job_id"] in {job["job_id"] for job in jobs}
    assert (await program.ask("DELETE", f"/schedules/{number}")).status == 204
    assert (await program.get(f"/schedules/{number}")).status == 404


@pytest.mark.usefixtures("one_of_each")
@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("2027-12-01T02:00:00Z", "2027-12-01T02:00:00Z"),
        ("2027-12-01T02:00:00.305437Z", "2027-12-01T02:00:00.305437Z"),
        ("2027-12-01t04:00:00+02:00", "2027-12-01T02:00:00Z"),
        ("2027-12-01T02:00:00", "2027-12-01T01:00:00Z"),
    ],
)
async def test_times_of_a_schedule_are_read_with_and_without_an_offset(
    program: Program, sent: str, read: str
) -> None:
    place = {"repository_id": 1, "metadata_prefix": "oai_dc", "time_zone": "Europe/Prague"}
    body = {**place, "frequency": "daily at 02:30", "start_date": sent, "end_date": "2028-01-01T00:00:00Z"}
    assert (await program.post("/schedules/forecast", body)).status == 200
    added = await program.post("/schedules", body)
    assert added.status == 201, added.body
    changed = await program.ask("PUT", f"/schedules/{added.body['schedule_id']}", body)
    for schedule in (added.body, changed.body):
        assert datetime.fromisoformat(schedule["start_date"]) == datetime.fromisoformat(read)
        assert schedule["end_date"] == "2028-01-01T00:00:00Z"


@pytest.mark.usefixtures("one_of_each")
async def test_a_schedule_that_is_replaced_without_a_start_begins_now(program: Program) -> None:
    body = {"repository_id": 1, "metadata_prefix": "oai_dc", "frequency": "daily at 02:30"}
    added = await program.post("/schedules", {**body, "start_date": "2099-01-01T00:00:00Z"})
    for further in ({}, {"start_date": None}):
        changed = await program.ask("PUT", f"/schedules/{added.body['schedule_id']}", {**body, **further})
        assert changed.body["start_date"] < "2099", changed.body
        await program.ask(
            "PUT", f"/schedules/{added.body['schedule_id']}", {**body, "start_date": "2099-01-01T00:00:00Z"}
        )


@pytest.mark.usefixtures("one_of_each")
@pytest.mark.parametrize("sent", ["1764547200", 1764547200, "tomorrow", "2027-12-32T02:00:00Z"])
async def test_an_invalid_start_of_a_schedule_is_refused(program: Program, sent: object) -> None:
    body = {"repository_id": 1, "metadata_prefix": "oai_dc", "start_date": sent}
    answer = await program.post("/schedules", body)
    assert answer.status == 422
    assert [fault["pointer"] for fault in answer.body["errors"]] == ["/start_date"]


@pytest.mark.usefixtures("one_of_each")
async def test_the_documented_schedule_requests_only_changed_records(program: Program) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "use-the-api.md").read_text(encoding="utf-8")
    (body,) = re.findall(r"\$api/schedules \\\n  -d '(.+)'", page)
    added = await program.post("/schedules", json.loads(body))
    assert added.status == 201
    assert added.body["incremental"] is True
    shown = whole_document()["components"]["schemas"]["NewSchedule"]["properties"]["incremental"]
    assert "all records each time" in shown["description"]


@pytest.mark.usefixtures("one_of_each")
@pytest.mark.parametrize("frequency", ["daily at 02:30", None])
async def test_sending_back_a_schedule_as_it_was_read_keeps_all_its_columns(
    server: Server, program: Program, frequency: str | None
) -> None:
    body = {
        "repository_id": 1, "metadata_prefix": "oai_dc", "frequency": "daily at 02:30", "incremental": True,
        "slice": "month", "overlap": "queue", "parse_id": False, "files_per_dir": 100,
    }  # fmt: skip
    read = (await program.post("/schedules", body)).body
    assert body.items() <= read.items()
    with server.database.session() as session:
        session.get_one(RecurringJob, read["schedule_id"]).frequency = frequency
        session.commit()
    read = (await program.get(f"/schedules/{read['schedule_id']}")).body
    back = {name: value for name, value in read.items() if name in NewSchedule.model_fields}
    changed = await program.ask("PUT", f"/schedules/{read['schedule_id']}", back)
    assert changed.status == 200, changed.body
    assert changed.body == read | {"frequency": frequency or ""}


@pytest.mark.usefixtures("one_of_each")
async def test_a_job_is_paused_resumed_stopped_killed_and_removed(server: Server, program: Program) -> None:
    job = (await program.post("/schedules/1/run")).body["job_id"]
    assert (await program.post(f"/jobs/{job}/pause")).body == {"job_id": job, "state": "paused"}
    assert (await program.post(f"/jobs/{job}/resume")).body["state"] == "scheduled"
    assert (await program.post(f"/jobs/{job}/stop")).status == 409
    with server.database.session() as session:
        session.get_one(Job, job).status = JobStatus.IN_PROGRESS
        session.commit()
    assert (await program.post(f"/jobs/{job}/stop")).body["state"] == "stopping"
    assert (await program.post(f"/jobs/{job}/kill")).body["state"] == "killing"
    other = (await program.post("/schedules/1/run")).body["job_id"]
    assert (await program.ask("DELETE", f"/jobs/{other}")).body["state"] == "removed"


@pytest.mark.usefixtures("one_of_each")
async def test_a_run_shows_its_warnings_and_its_errors_with_raw_data(program: Program) -> None:
    run = (await program.get("/runs/1")).body
    assert run["warnings"] == ["a warning"]
    errors = (await program.get("/runs/1/errors")).body["items"]
    assert [error["identifier"] for error in errors] == ["oai:telc:broken"]
    answer = await program.get(f"/errors/{errors[0]['quarantine_id']}/bytes")
    assert answer.body == "<record a=1>"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert (await program.get("/runs?status=failed")).body["items"] == []
    assert (await program.ask("DELETE", "/runs/1")).status == 204


@pytest.mark.usefixtures("one_of_each")
async def test_a_record_links_to_its_file(program: Program) -> None:
    records = (await program.get("/repositories/1/records?identifier=oai:telc:1")).body["items"]
    assert [record["identifier"] for record in records] == ["oai:telc:1"]
    shown = (await program.get(f"/records/{records[0]['record_id']}")).body
    assert shown["digest"] == "01" * 32
    assert (await program.get(shown["content"])).body == CONTENT.decode()
    gone = (await program.get("/repositories/1/records?identifier=oai:telc:2")).body["items"][0]
    assert (await program.get(gone["content"])).status == 404


async def test_users_tokens_and_organisations_are_managed_over_the_api(
    using: Using, program: Program, administrator: Browser
) -> None:
    csrf = await administrator.token()

    async def make(path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Send it as the administrator's browser does, because API tokens may not."""
        url = administrator.base_url + "/api/v1" + path
        async with administrator.http.post(url, json=body, headers={"X-CSRF-Token": csrf}) as answer:
            assert answer.status == 201, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    made = await program.post("/organisations", {"short_name": "svk", "name": "A library"})
    organisation = made.body["organisation_id"]
    user = await make("/users", {"name": "Petra", "role": "partner", "organisation_id": organisation})
    number = user["user_id"]
    token = await make(f"/users/{number}/tokens", {"name": "script", "scopes": ["read"]})
    headers = {"Authorization": f"Bearer {token['token']}"}
    async with using(None) as other:
        me = await other.ask("GET", "/me", headers=headers)
        assert (me.body["name"], me.body["organisation"], me.body["scopes"]) == ("Petra", "svk", ["read"])
        assert (await program.ask("DELETE", f"/tokens/{token['token_id']}")).status == 204
        assert (await other.ask("GET", "/me", headers=headers)).status == 401
    assert (await program.ask("DELETE", f"/organisations/{organisation}")).status == 409
    assert (await program.post(f"/users/{number}/disable")).body["state"] == "disabled"
    path, body = f"/api/v1/users/{number}/tokens", {"name": "later", "scopes": ["read"]}
    async with administrator.http.post(
        administrator.base_url + path, json=body, headers={"X-CSRF-Token": csrf}
    ) as answer:
        assert (answer.status, "is disabled" in (await answer.json())["detail"]) == (422, True)


def test_requests_of_each_caller_are_limited_per_minute() -> None:
    now = 0.0
    limiter = RateLimit(per_minute=2, clock=lambda: now)

    assert [limiter.wait("a"), limiter.wait("a")] == [0, 0]
    assert limiter.wait("a") == 30
    assert limiter.wait("b") == 0
    now = 30.0
    assert limiter.wait("a") == 0
    assert limiter.wait("a") == 30


async def test_too_many_requests_are_answered_with_retry_after(server: Server, program: Program) -> None:
    server.app[LIMITER].per_minute = 1
    await program.get("/me")

    answer = await program.get("/me")

    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 61


def test_the_openapi_document_has_every_operation_with_all_its_statuses() -> None:
    document = whole_document()
    found = {
        operation["operationId"]: set(operation["responses"])
        for path in document["paths"].values()
        for operation in path.values()
    }

    assert document["openapi"] == "3.1.0"
    assert found == {one.name: {str(status) for status in one.statuses} for one in OPERATIONS}
    assert len(found) == len(OPERATIONS)


async def test_the_documents_page_names_every_operation(viewer: Browser) -> None:
    _, page = await viewer.get("/api/docs")

    for operation in OPERATIONS:
        assert f'id="{operation.name}"' in page
        assert operation.path in page


@pytest.mark.usefixtures("one_of_each")
async def test_the_document_names_tokens_unless_an_operation_refuses_them(using: Using) -> None:
    document = whole_document()
    async with using("Alena", *Scope) as program:
        for operation in OPERATIONS:
            if operation.method == "GET":
                continue
            answer = await program.ask(operation.method, _address(operation))
            declared = document["paths"][operation.path][operation.method.lower()]["security"]
            assert ({"token": []} in declared) == (answer.status != 403), operation.name


def test_schema_names_in_the_document_are_alphanumeric() -> None:
    assert [name for name in whole_document()["components"]["schemas"] if not name.isalnum()] == []


async def test_a_reader_tries_an_operation_from_its_form(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    async with viewer.http.get(
        f"{server.base_url}/api/docs/try?operation=listRepositories&limit=1&cursor="
    ) as answer:
        listed = await answer.json()
    async with viewer.http.get(
        f"{server.base_url}/api/docs/try?operation=getRepository&repository=1"
    ) as answer:
        shown = await answer.json()
    unknown, _ = await viewer.get("/api/docs/try?operation=removeRepository&repository=1")

    assert [item["repository_id"] for item in listed["items"]] == [shown["repository_id"]] == [1]
    assert unknown == 404


async def test_the_example_requests_are_complete_commands(server: Server, viewer: Browser) -> None:
    _, page = await viewer.get("/api/docs")
    commands = [html.unescape(found) for found in re.findall(r"<pre[^>]*>(curl [^<]+)</pre>", page)]

    assert len(commands) == len(OPERATIONS)
    for command in commands:
        words = shlex.split(command)
        assert words[-1].startswith(f"{server.base_url}/api/v1/")
        if "-d" in words:
            json.loads(words[words.index("-d") + 1])


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
async def test_times_at_the_ends_of_the_calendar_are_refused(program: Program, time: str) -> None:
    assert (await program.get(f"/runs?until={quote(time)}")).status == 422
    assert (await program.get("/runs?until=9999-12-31T23:59:59Z")).status == 200
    for path, body in (
        ("/archive/exports", {"url": "http://a.example/", "since": time}),
        (
            "/archive/takedowns",
            {"targets": ["http://a.example/"], "reason": "x", "requester": "x", "expires": time},
        ),
    ):
        answer = await program.post(path, body)
        assert answer.status == 422
        assert "Enter a year" in str(answer.body["errors"])


async def test_only_one_of_concurrent_equal_requests_passes_a_uniqueness_check(
    server: Server, program: Program
) -> None:
    async def at_once(path: str, body: dict[str, Any]) -> list[int]:
        answers = await asyncio.gather(*(program.post(path, body) for _ in range(8)))
        return sorted(answer.status for answer in answers)

    rule = '<filters match="any"><filter xpath="//x" regexp="y"/></filters>'
    assert await at_once("/rules", {"name": "R", "content": rule}) == 8 * [201]
    assert await at_once("/alert-rules", {"target": "a@example.org"}) == [201, *7 * [422]]
    assert await at_once("/archive/collections", {"set_spec": "a", "name": "A"}) == [201, *7 * [409]]
    assert await at_once("/store-audit-schedules", {"repository_id": None, "frequency": "daily"}) == 8 * [201]
    with server.database.session() as session:
        assert session.scalar(select(func.count()).select_from(StoreAuditSchedule)) == 1
