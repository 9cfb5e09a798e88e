"""Database rows for the dashboard, as the harvester and the manager would write them."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from harvester.bibliographic.conditions import Match, parse_condition
from harvester.bibliographic.filtering_sets import add_set
from harvester.bibliographic.models import BibliographicRow, ContributorRow, FilteringSet, IdentifierRow
from harvester.bibliographic.text import fold
from harvester.harvest.models import Hold
from harvester.models import Harvest, History, Repository
from harvester.probing.findings import Fact, Profile, Report
from harvester.repositories import add_repository
from harvester.rule_lab.models import Rule, RuleVersion
from harvester.store.models import AuditState, StoreAudit, damage
from harvester.vocabulary import RunStatus
from manager.models import RecurringJob, Worker
from manager.schedules.service import add_schedule
from provider.export.models import PreparedExport
from provider.export.selection import ExportChoice
from provider.holdings.lookup import MatchType
from provider.titles.entries import TitleEntry
from provider.titles.imports import apply_import, plan_import
from provider.titles.ranges import RangeRules

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def a_repository(session: Session, name: str = "Library of Telč", folder: str = "telc") -> Repository:
    """Insert a repository that was never queried."""
    repository = add_repository(session, base_url=f"https://{folder}.example/oai", base_dir=folder)
    repository.repository_name = name
    session.flush()
    return repository


def a_schedule(session: Session, repository: Repository, **columns: Any) -> RecurringJob:
    """Insert a daily schedule."""
    columns = {"frequency": "daily at 02:30", "metadata_prefix": "marc21", **columns}
    return add_schedule(session, repository_id=repository.repository_id, **columns)


def a_run(session: Session, repository: Repository, **columns: Any) -> History:
    """Insert a run that completed a minute after its start."""
    values = {
        "harvest_start_time": BEGAN,
        "harvest_end_time": BEGAN + timedelta(minutes=1),
        "status": RunStatus.COMPLETED,
        "verdict": "complete",
        "metadata_prefix": "oai_dc",
        **columns,
    }
    run = History(repository_id=repository.repository_id, **values)
    session.add(run)
    session.flush()
    return run


def a_hold(session: Session, run: History, **columns: Any) -> Hold:
    """Insert the hold of a run that would delete 1,300 of 4,000 records, with a harvest of its own."""
    harvest = Harvest(repository_id=run.repository_id, metadata_prefix="held")
    session.add(harvest)
    session.flush()
    values = {
        "kind": "deletions",
        "would_delete": 1300,
        "active": 4000,
        "allowed": 12.5,
        "sample": ["oai:telc.example:1"],
        **columns,
    }
    hold = Hold(history_id=run.history_id, harvest_id=harvest.harvest_id, run_started=BEGAN, **values)
    session.add(hold)
    session.flush()
    return hold


def a_worker(session: Session) -> Worker:
    """Insert a worker that takes jobs."""
    good_until = text("now() + interval '1 hour'")
    worker = Worker(host="one.example", process_id=7, concurrency=4, good_until=good_until)
    session.add(worker)
    session.flush()
    return worker


def a_store_audit(session: Session, repository: Repository, path: str = "a/1.xml") -> StoreAudit:
    """Insert an audit that found an altered file."""
    audit = StoreAudit(
        repository_id=repository.repository_id,
        started=BEGAN,
        files=2,
        altered=1,
        findings=[{"kind": "altered", "path": path, "identifier": "oai:x:1", "unfinished": False}],
    )
    audit.conclude(damage(missing=0, altered=1, stray=0), state=AuditState.DONE, ended=BEGAN)
    session.add(audit)
    session.flush()
    return audit


def a_rule(session: Session, repository: Repository | None = None, options: str = "") -> Rule:
    """Insert a filter rule with two versions, of the repository or shared; its file is not written."""
    number = session.scalars(select(func.count()).select_from(Rule)).one()
    rule = Rule(
        kind="filter",
        name="Books alone",
        path=f"rules/books-{number}.xml",
        repository_id=repository.repository_id if repository else None,
    )
    session.add(rule)
    session.flush()
    for number, word in enumerate(("book", "books?"), start=1):
        content = (
            f'<filters><!-- {"w" * 90} --><filter xpath="//*" regexp="{word}"{options}/></filters>'.encode()
        )
        digest = hashlib.sha256(content).hexdigest()
        session.add(RuleVersion(rule_id=rule.rule_id, number=number, content=content, digest=digest))
    session.flush()
    return rule


def a_bibliographic_record(session: Session, repository: Repository, **columns: Any) -> BibliographicRow:
    """Insert a book as an import would write it, with a name, a number and notes of each kind."""
    number = session.scalars(select(func.count()).select_from(BibliographicRow)).one() + 1
    title = columns.pop("title", "Slovník staré češtiny")
    values = {
        "metadata_prefix": "marc21",
        "identifier": f"oai:telc.example:{number}",
        "datestamp": "2026-01-01",
        "content_digest": b"x",
        "basis": "marc21/1",
        "format": "marc21",
        "kind": "book",
        "title": title,
        "sort_title": fold(title),
        "place": "Praha",
        "publisher": "Academia",
        "date_text": "1998",
        "year_from": 1998,
        "year_to": 1998,
        "sort_year": 1998,
        "languages": ["cze"],
        "subjects": [{"text": "čeština", "kind": "topic", "source": "czenas", "authority_ids": []}],
        "links": [{"url": "https://telc.example/full-text/" + "1" * 60, "label": "", "relation": "resource"}],
        "notes": [
            {"kind": "note", "field": "500", "text": "Poznámka", "fault": ""},
            {"kind": "kept", "field": "999", "text": "$a x", "fault": ""},
            {"kind": "broken", "field": "008", "text": "98", "fault": "2 characters instead of 40"},
        ],
        "words": func.to_tsvector("simple", fold(title)),
        **columns,
    }
    key = uuid.uuid5(uuid.NAMESPACE_URL, str(values["identifier"]))
    row = BibliographicRow(repository_id=repository.repository_id, identifier_key=key, **values)
    session.add(row)
    session.flush()
    place = {
        "bibliographic_id": row.bibliographic_id,
        "repository_id": repository.repository_id,
        "position": 0,
    }
    place = {name: value for name, value in place.items() if hasattr(ContributorRow, name)}
    session.add(ContributorRow(**place, name="Hus, Jan", kind="person", roles=["aut"]))
    session.add(IdentifierRow(**place, scheme="isbn", value="9788020001290", found="80-200-0129-8"))
    session.flush()
    return row


def a_filtering_set(session: Session, name: str = "dictionaries") -> int:
    """Insert a filtering set of dictionaries, once; return its id."""
    found = session.scalars(select(FilteringSet.set_id).where(FilteringSet.name == name)).first()
    if found is not None:
        return found
    conditions = [parse_condition("245$a contains slovník"), parse_condition("655[#7]$a equals edice")]
    return add_set(session, name=name, match=Match.ANY, conditions=conditions).set_id


def an_examination() -> Report:
    """Return a report with a fact of each grade."""
    facts = [
        Fact(subject="version", found="well"),
        Fact(subject="page size", found="small", values={"count": 10}),
        Fact(subject="token again", found="refused"),
        Fact(subject="records", found="none"),
    ]
    return Report(
        base_url="https://telc.example/oai",
        examined=BEGAN,
        requests=20,
        seconds=12.5,
        repository_name="Library of Telč",
        admin_emails=("librarian@telc.example",),
        facts=facts,
        profile=Profile(slice="month", why=("token again.refused",)),
    )


def some_exports(session: Session) -> None:
    """Insert files prepared for download: one that is ready, one that failed, one that was removed."""
    choice = ExportChoice(look_ups=[("http://" + "a" * 60 + ".example.cz/" + "path/" * 20, MatchType.PREFIX)])
    common = {"form": "wacz", "selection": choice.as_json(), "queued": BEGAN, "asked_by": "Katka"}
    ready = PreparedExport(
        **common,
        title="Noviny " + "staročeské " * 20,
        state="ready",
        reading_room=True,
        host="archive-1",
        ended=BEGAN,
        expires=BEGAN + timedelta(days=7),
        chosen=12_000,
        examined=12_000,
        captures=11_000,
        left_out={"withheld": 999, "damaged": 1},
        bytes=3_000_000_000,
    )
    failed = PreparedExport(
        **common, title="Telč", state="failed", ended=BEGAN, failure_code="export_too_large",
        failure_facts={"limit": 1000, "setting": "provider.export_bytes"},
    )  # fmt: skip
    removed = PreparedExport(
        **common, title="Telč", state="removed", removed=BEGAN, failure_code="export_withdrawn",
        failure_facts={"count": 2},
    )  # fmt: skip
    for row in (ready, failed, removed):
        session.add(row)
        session.flush()


def some_titles(session: Session) -> None:
    """Import titles of the source `library`: one with a long name and address."""
    seeds = [
        {"url": "http://telc.example/", "main": True},
        {"url": "http://telc.example/shop/", "kind": "carve-out"},
        {"url": "http://" + "a" * 60 + ".example.cz/" + "long-path/" * 10},
    ]
    one = {
        "key": "1",
        "name": "Noviny " + "staročeské " * 20,
        "publisher": "Nakladatelství " + "českých novin " * 10,
        "annotation": "Popis. " * 50,
        "issn": "1234-5679",
        "subjects": [{"name": "Hudba", "number": 9, "part": "Zpěv"}],
        "keywords": ["hudba"],
        "licence": "CC BY 4.0",
        "seeds": seeds,
    }
    two = {"key": "k" * 90, "name": "Telč", "seeds": seeds[:1], "access": "reading room", "public": False}
    rules = RangeRules()
    entries = [TitleEntry.model_validate(one), TitleEntry.model_validate(two)]
    apply_import(session, plan_import(session, "library", entries, rules), rules, margin=0)
