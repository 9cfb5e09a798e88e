"""Every route receives seeded invalid requests of a stranger, a partner and an administrator."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.rule_lab.models import Rule
from manager.models import RecurringJob
from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from tests.attacks.fuzzing import MARK, REFUSING, Case, Fuzzer, answer, fields_of, judged, leaked
from tests.provider.archive import Archive
from tests.web.api.conftest import token_of
from tests.web.conftest import Server, browser_of
from tests.web.standing import OBJECTS, PUBLIC, a_world
from web.api.table import whole_document
from web.auth.organisations import find_organisation, give_repository
from web.auth.users import find_user
from web.models import Role

_SEED = 20261125
_ROUNDS, _LONG_ROUNDS = 1, 40
_SLOW = {
    *(("GET", path) for path in ("/repositories/{id}/explorer", "/repositories/{id}/doctor")),
    *(("POST", path) for path in ("/repositories/new", "/repositories/{id}/refresh", "/archive/check")),
    *(("POST", f"/api/v1/repositories/{{repository}}/{word}") for word in ("refresh", "questions", "sample")),
    *(("POST", f"/api/v1/{path}") for path in ("probe", "archive/checks", "rules/{rule}/trial")),
}
"""Routes that start a process for a second or more: only the long form asks them."""
_REACHING = {200, 201, 204, 400, 409, 413, 422}
_MARKED = """
UPDATE oai_repository SET repository_name = '{M} library', admin_email = '{M}@mzk.example',
  base_url = 'http://127.0.0.1:9/{M}', base_dir = '{M}' WHERE repository_id = {repository};
UPDATE oai_recurring_job SET set_spec = '{M}' WHERE id = {schedule};
UPDATE oai_job SET set_spec = '{M}' WHERE job_id = {job};
UPDATE oai_history SET failure_reason = 'HTTP {M}', set_spec = '{M}' WHERE history_id = {run};
UPDATE oai_quarantine SET identifier = 'oai:{M}', reason = '{M}', url = 'http://{M}', raw = '<{M}/>'
  WHERE quarantine_id = {error};
UPDATE oai_record SET identifier = 'oai:{M}' WHERE record_id = {record};
UPDATE bibliographic_record SET title = '{M}', sort_title = '{M}', publisher = '{M}', subjects = '[]'
  WHERE bibliographic_id = {bibliographic_record};
UPDATE notice_rule SET target = '{M}@mzk.example' WHERE rule_id = {rule};
UPDATE oai_rule SET name = '{M}', description = '{M}', path = 'rules/{M}.xml' WHERE rule_id = {rule_file};
UPDATE oai_rule_version SET content = '<filters><!-- {M} --></filters>' WHERE rule_id = {rule_file};
UPDATE bibliographic_set SET name = 'mzk/{M}' WHERE set_id = {filtering_set}
"""
"""Every text of others' rows that answers show."""


@dataclass(kw_only=True)
class Findings:
    """The findings of a run, and its figures."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    reached: set[tuple[str, str]] = field(default_factory=set)
    """The routes that did not turn the sender away."""

    def note(self, case: Case, route: tuple[str, str], status: int, fault: str | None) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        if case.role != "stranger" and case.method == route[0] and status in _REACHING:
            self.reached.add(route)
        if fault is not None:
            self.faults.append(f"{case}\n    {fault}")

    def report(self, role: str) -> None:
        """Print the figures (`pytest -s`), and fail if there are faults."""
        # The figures are the result of the run.
        print(f"{role}: {self.statuses.total()} requests, by status {sorted(self.statuses.items())}")  # noqa: T201
        assert not self.faults, f"{len(self.faults)} faults, among them\n" + "\n".join(self.faults[:20])


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings in which the dashboard requests no foreign addresses and its folder has a secret name."""
    return settings.model_copy(
        update={
            "data": settings.data / MARK,
            "provider": settings.provider.model_copy(update={"base_url": f"{REFUSING}/oai"}),
            "harvester": settings.harvester.model_copy(update={"registry_url": None, "retries": 0}),
            "web": settings.web.model_copy(update={"api_per_minute": 0, "sign_in_tries_per_address": 10**6}),
            "mail": settings.mail.model_copy(update={"host": "127.0.0.1", "port": 9}),
            "webhooks": settings.webhooks.model_copy(update={"timeout": 1}),
        }
    )


@pytest.fixture
def world(server: Server) -> Mapping[str, Sequence[int | str]]:
    """Two organisations with one of everything, nk's and mzk's; numbers by the beginnings of paths."""
    with server.database.session() as session:
        others, own = a_world(session), a_world(session)
        nk = find_organisation(session, "nk")
        assert nk is not None
        give_repository(session, own["repository"], nk.organisation_id)
        session.flush()
        session.execute(
            text("UPDATE oai_repository SET base_url = :url || repository_id"), {"url": f"{REFUSING}/"}
        )
        session.execute(text("UPDATE bibliographic_set SET name = 'nk/' || set_id"))
        _mark(session, others)
        server.settings.data.mkdir(parents=True)
        own_rule = str(server.settings.data / session.get_one(Rule, own["rule file"]).path)
        session.get_one(RecurringJob, own["schedule"]).filter_file_path = own_rule
        session.commit()
    numbers = {path.partition("{")[0]: (own[word], others[word]) for path, word in OBJECTS.items()}
    return {
        "kind": ("csv", "json"),
        "control": ("pause", "resume", "stop", "kill", "remove"),
        # The longest first: /records/bibliographic/ before /records/.
        **dict(sorted(numbers.items(), key=lambda pair: len(pair[0]), reverse=True)),
    }


def _mark(session: Session, others: Mapping[str, int]) -> None:
    """Write the mark wherever a row of others has a text that answers show."""
    numbers = {word.replace(" ", "_"): number for word, number in others.items()}
    for statement in _MARKED.split(";"):
        changed = session.connection().exec_driver_sql(statement.format(M=MARK, **numbers))
        assert changed.rowcount, statement
    session.execute(text("UPDATE web_organisation SET name = :mark WHERE short_name = 'mzk'"), {"mark": MARK})


def _routes(app: web.Application) -> list[tuple[str, str]]:
    """Method and path of each route, in a fixed order."""
    found = {(one.method, one.resource.canonical) for one in app.router.routes() if one.resource}
    return sorted(pair for pair in found if pair[0] != "HEAD")


async def _forms(
    server: Server, routes: Sequence[tuple[str, str]], fuzzer: Fuzzer
) -> dict[str, dict[str, str]]:
    """Read the fields of the forms on all pages."""
    found: dict[str, dict[str, str]] = {}
    targets = [path for method, path in routes if method == "POST"]
    async with browser_of(server, "Alena") as browser:
        for method, path in routes:
            if method != "GET" or path.startswith(("/api/", "/events", "/static")):
                continue
            at = fuzzer.plain(path)
            status, page = await browser.get(at)
            if status == 200 and page.lower().startswith("<!doctype"):
                for route, fields in fields_of(page, at, targets).items():
                    found.setdefault(route, {}).update(fields)
    return found


def _api() -> tuple[dict[tuple[str, str], dict[str, Any]], list[str]]:
    """Return the schemas of bodies by method and path, and the names of query parameters."""
    document = whole_document()
    schemas, names = document["components"]["schemas"], set()
    bodies = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            names |= {one["name"] for one in operation["parameters"] if one["in"] == "query"}
            sent = operation.get("requestBody")
            if sent is not None:
                schema = sent["content"]["application/json"]["schema"]
                bodies[method.upper(), f"/api/v1{path}"] = {**schema, "$defs": schemas}
    return bodies, sorted(names)


_ROLES = ("stranger", "partner", "program of the partner", "administrator")


@pytest.mark.slow
async def test_no_request_causes_a_server_error_or_reveals_data_of_other_organisations(
    server: Server, world: Mapping[str, Sequence[int | str]], request: pytest.FixtureRequest
) -> None:
    long = request.config.getoption("--long")
    routes = _routes(server.app)
    bodies, names = _api()
    start = Fuzzer(role=_ROLES[0], chance=random.Random(_SEED), world=world, queries=names)
    forms = await _forms(server, routes, start)
    queries = sorted({*names, *(field for fields in forms.values() for field in fields)})
    reached: set[tuple[str, str]] = set()
    for role in _ROLES:
        chance = random.Random(_SEED)
        fuzzer = replace(start, role=role, chance=chance, bodies=bodies, forms=forms, queries=queries)
        findings = Findings()
        for _round in range(_LONG_ROUNDS if long else _ROUNDS):
            chosen = [route for route in routes if long or (route not in reached and _is_quick(role, *route))]
            chance.shuffle(chosen)
            await _ask_all(server, fuzzer, chosen, findings)
        # Routes that a partner's invalid requests have reached are omitted for the administrator.
        reached |= findings.reached
        findings.report(role)


def _is_quick(role: str, method: str, path: str) -> bool:
    """Return whether the short run requests the route: pages with a session, the API with a token.

    The API reads the rights of a session and of a token by the same code, and pages ignore tokens.
    """
    at_home = {"partner": not path.startswith("/api/"), "program of the partner": path.startswith("/api/")}
    return (method, path) not in _SLOW and at_home.get(role, True)


_USERS = {"partner": "Karel", "program of the partner": "Karel", "administrator": "Alena"}


async def _ask_all(
    server: Server, fuzzer: Fuzzer, routes: Sequence[tuple[str, str]], findings: Findings
) -> None:
    """Request each route once, in a session that is renewed when a request has ended it."""
    left, name = list(routes), _USERS.get(fuzzer.role)
    while left:
        _restore(server, name)
        async with browser_of(server, name if fuzzer.role != "program of the partner" else None) as browser:
            if fuzzer.role == "program of the partner":
                browser.http.headers["Authorization"] = f"Bearer {token_of(server, 'Karel')}"
            asking = replace(fuzzer, token=await browser.token("/account" if name else "/sign-in"))
            while left:
                method, path = left.pop()
                case = asking.case(method, path)
                status, headers, body = await answer(browser.http, server.base_url, case)
                findings.note(case, (method, path), status, _fault(case, path, status, headers, body))
                if name is not None and _is_signed_out(status, headers, case):
                    break


def _restore(server: Server, name: str | None) -> None:
    """Undo the changes that requests made to the account that sends them."""
    with server.database.session() as session:
        user = None if name is None else find_user(session, name)
        if user is not None:
            organisation = find_organisation(session, "nk") if name == "Karel" else None
            role = Role.PARTNER if organisation else Role.ADMINISTRATOR
            user.disabled, user.role, user.totp_secret = None, role, None
            user.organisation_id = organisation.organisation_id if organisation else None
            session.commit()


def _is_signed_out(status: int, headers: Mapping[str, str], case: Case) -> bool:
    signed_out = status == 401 or headers.get("Location", "").startswith("/sign-in")
    return signed_out and not {"Authorization", "Cookie"} & set(case.headers)


def _fault(case: Case, path: str, status: int, headers: Mapping[str, str], body: str) -> str | None:
    """Return the fault of a response to this role."""
    fault = judged(status, headers, body)
    if fault is None and case.role != "administrator":
        fault = leaked(headers, body)
    if fault is None and case.role == "stranger" and 200 <= status < 300 and ("GET", path) not in PUBLIC:
        fault = f"a stranger gets {status}"
    return fault


_ARGUMENTS = (
    "verb",
    "identifier",
    "metadataPrefix",
    "set",
    "from",
    "until",
    "resumptionToken",
    "url",
    "limit",
)
_CDX = (
    "matchType",
    "filter",
    "collapse",
    "fields",
    "sort",
    "closest",
    "page",
    "pageSize",
    "resumeKey",
    "output",
)
_OAI_WORDS = (
    *("Identify", "ListSets", "ListMetadataFormats", "ListRecords", "ListIdentifiers", "GetRecord"),
    *(
        "oai_dc",
        "marc21",
        "mods",
        "collection:maps",
        "domain:cz",
        "type:text",
        "2020-01-01",
        "www.example.cz/*",
    ),
    *("2020-01-01T00:00:00Z", "http://www.example.cz/1", "prefix", "domain", "json", "urlkey", "!status:200"),
)


async def test_no_request_causes_a_server_error_of_the_provider(
    settings: Settings, database: Database, request: pytest.FixtureRequest
) -> None:
    archive = Archive(database, settings)
    keys = [archive.add(collections=["collection:maps"]) for _ in range(5)]
    fuzzer = Fuzzer(
        role="stranger",
        chance=random.Random(_SEED),
        world={"key": [key.rpartition(":")[2] for key in keys]},
        queries=(*_ARGUMENTS, *_CDX),
        more_words=(*_OAI_WORDS * 3, *keys),
    )
    app = create_app(settings, database, base_url=f"{REFUSING}/oai")
    routes, findings = _routes(app), Findings()
    async with TestServer(app) as served, aiohttp.ClientSession() as http:
        base_url = str(served.make_url("")).rstrip("/")
        for _round in range(_LONG_ROUNDS * 10 if request.config.getoption("--long") else _ROUNDS * 10):
            for method, path in routes:
                case = fuzzer.case(method, path)
                status, headers, body = await answer(http, base_url, case)
                fault = judged(status, headers, body)
                # The documents' archive files do not exist, which is not a fault of the provider.
                findings.note(
                    case, (method, path), status, None if (status, path) == (503, "/archive/{key}") else fault
                )
    findings.report("provider")
