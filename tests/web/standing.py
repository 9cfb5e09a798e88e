"""Data of the three standing users: one object of each kind owned by mzk, and who may use each route.

A route that no table here covers makes `test_standing_users.py` fail.
"""

import hashlib
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.harvest.models import Quarantined
from harvester.models import Record
from manager.notices.models import NoticeRule
from manager.notices.mutes import acknowledge
from manager.schedules.service import run_now
from manager.store_audits import set_schedule
from tests.web.rows import (
    BEGAN,
    a_bibliographic_record,
    a_filtering_set,
    a_repository,
    a_rule,
    a_run,
    a_schedule,
    a_store_audit,
)
from web.auth.organisations import find_organisation, give_repository

MARK: Final = "Library of the owner alone"
"""The owner's repository: its name in a response to anyone else is a leak."""

PUBLIC: Final = frozenset(
    {
        ("GET", "/sign-in"),
        ("POST", "/sign-in"),
        ("GET", "/sign-in/code"),
        ("POST", "/sign-in/code"),
        ("GET", "/sign-in/openid"),
        ("GET", "/sign-in/openid/return"),
        ("GET", "/sign-in/openid/sign-out"),
        ("GET", "/cards/{card}"),
        ("POST", "/cards/{card}/check"),
        ("POST", "/cards/{card}/digest"),
        ("GET", "/digests/{digest}"),
        ("POST", "/digests/{digest}"),
        ("GET", "/alerts/confirm"),
        ("POST", "/alerts/confirm"),
        ("GET", "/alerts/confirmed"),
        ("POST", "/preferences"),
        ("GET", "/api/openapi.json"),
        ("GET", "/static"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    }
)
"""Routes that also answer anonymous requests."""

OWN_ACCOUNT: Final = frozenset(
    {
        ("GET", "/account"),
        ("POST", "/account/language"),
        ("POST", "/account/time-zone"),
        ("POST", "/account/password"),
        ("GET", "/account/second-factor"),
        ("POST", "/account/second-factor/enable"),
        ("POST", "/account/second-factor/codes"),
        ("POST", "/account/second-factor/disable"),
        ("GET", "/sign-in/again"),
        ("POST", "/sign-in/again"),
        ("POST", "/account/sessions/end"),
        ("POST", "/account/tokens"),
        ("POST", "/account/tokens/{id}/revoke"),
        ("POST", "/account/openid/connect"),
        ("POST", "/account/openid/disconnect"),
        ("POST", "/sign-out"),
        ("GET", "/api/v1/me"),
    }
)
"""Routes that show and change only the account of the current user."""

OBJECTS: Final[Mapping[str, str]] = {
    "/repositories/{id}": "repository",
    "/schedules/{id}": "schedule",
    "/jobs/{id}": "job",
    "/runs/{id}": "run",
    "/errors/{id}": "error",
    "/records/{id}": "record",
    "/records/bibliographic/{id}": "bibliographic record",
    "/imports/{id}": "repository",
    "/alerts/rules/{id}": "rule",
    "/alerts/mutes/{id}": "mute",
    "/rules/{id}": "rule file",
    "/store-audits/{id}": "audit",
    "/store-audits/schedules/{id}": "audit schedule",
    "/imports/sets/{id}": "filtering set",
    "/api/v1/repositories/{repository}": "repository",
    "/api/v1/schedules/{schedule}": "schedule",
    "/api/v1/jobs/{job}": "job",
    "/api/v1/runs/{run}": "run",
    "/api/v1/errors/{error}": "error",
    "/api/v1/records/{record}": "record",
    "/api/v1/bibliographic-records/{bibliographic_record}": "bibliographic record",
    "/api/v1/alert-rules/{alert_rule}": "rule",
    "/api/v1/mutes/{mute}": "mute",
    "/api/v1/rules/{rule}": "rule file",
    "/api/v1/store-audits/{store_audit}": "audit",
    "/api/v1/store-audit-schedules/{audit_schedule}": "audit schedule",
    "/api/v1/filtering-sets/{filtering_set}": "filtering set",
}
"""Routes below these concern one object, which has an owner."""


def a_world(session: Session) -> dict[str, int]:
    """Insert one object of each kind, owned by mzk; return the ids by the words of `OBJECTS`."""
    organisation = find_organisation(session, "mzk")
    assert organisation is not None
    number = session.scalars(text("SELECT count(*) FROM oai_repository")).one()
    repository = a_repository(session, name=MARK, folder=f"owner-{number}")
    repository.admin_email = "librarian@mzk.example"
    schedule = a_schedule(session, repository, metadata_prefix="oai_dc")
    give_repository(session, repository.repository_id, organisation.organisation_id)
    job = run_now(session, schedule.id)
    run = a_run(session, repository, status="failed", verdict="failed", failure_reason="HTTP status 500")
    run.announced = BEGAN
    key = uuid.UUID(bytes=hashlib.sha256(b"oai:x:1").digest()[:16])
    record = Record(
        repository_id=repository.repository_id,
        identifier="oai:x:1",
        identifier_key=key,
        datestamp="2026-01-01",
        metadata_prefix="oai_dc",
    )
    fault = Quarantined(
        repository_id=repository.repository_id,
        metadata_prefix="oai_dc",
        fault_key=key,
        identifier="oai:x:2",
        reason="not well-formed",
        url="https://owner.example/oai?verb=ListRecords",
        raw=b"<record>&nbsp;</record>",
        raw_size=23,
        last_run=BEGAN,
        history_id=run.history_id,
    )
    rule = NoticeRule(repository_id=repository.repository_id, channel="mail", target="librarian@mzk.example")
    audit = a_store_audit(session, repository)
    audit_schedule = set_schedule(session, repository_id=repository.repository_id, frequency="weekly")
    session.add_all([record, fault, rule])
    file = a_rule(session, repository)
    filtering_set = a_filtering_set(session, f"mzk/{MARK} {number}")
    described = a_bibliographic_record(session, repository)
    session.flush()
    return {
        "repository": repository.repository_id,
        "schedule": schedule.id,
        "job": job.job_id,
        "run": run.history_id,
        "error": fault.quarantine_id,
        "record": record.record_id,
        "bibliographic record": described.bibliographic_id,
        "rule": rule.rule_id,
        "rule file": file.rule_id,
        "mute": acknowledge(session, run.history_id, note=MARK).mute_id,
        "audit": audit.audit_id,
        "audit schedule": audit_schedule.schedule_id,
        "filtering set": filtering_set,
    }


def a_neighbour(session: Session) -> None:
    """Insert a repository of nk with a job that is due much later, so that its lists are not empty."""
    organisation = find_organisation(session, "nk")
    assert organisation is not None
    repository = a_repository(session, name="Library of the colleague", folder="colleague")
    schedule = a_schedule(session, repository)
    give_repository(session, repository.repository_id, organisation.organisation_id)
    run_now(session, schedule.id).harvest_start_time += timedelta(days=1)
    a_run(session, repository).announced = BEGAN


def fingerprint(session: Session) -> dict[str, str]:
    """Return checksums of the tables of harvests and owners, to detect changes."""
    tables = session.scalars(
        text(
            "SELECT relname FROM pg_stat_user_tables "
            "WHERE relname LIKE 'oai\\_%' OR relname LIKE 'bibliographic\\_%' OR relname LIKE 'notice%' "
            "OR relname = 'web_repository_owner' "
            "ORDER BY 1"
        )
    )
    return {
        table: session.scalars(
            text(f"SELECT coalesce(md5(string_agg(t::text, ',' ORDER BY t::text)), '') FROM {table} t")  # noqa: S608
        ).one()
        for table in tables.all()
    }
