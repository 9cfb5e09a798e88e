import csv
import json
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from lxml import html
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from harvester.harvest.approval import HoldState
from harvester.harvest.models import Hold, Quarantined
from harvester.harvest.verdict import End, Evidence
from harvester.models import Harvest, History, Record, Repository
from harvester.reading.errors import ServerBusyError
from harvester.store.paths import identifier_key
from harvester.vocabulary import RunStatus
from manager.models import Job
from manager.schedules.service import run_now
from oai.datestamps import utc_now
from oai.failures import FailureCode
from tests.web.conftest import Browser, Server
from tests.web.rows import BEGAN, a_bibliographic_record, a_hold, a_repository, a_run, a_schedule
from web.errors.pages import grouped
from web.errors.raw_bytes import view_of
from web.runs.words import ENDS, EVIDENCE


def _broken(repository: Repository, run: History, **columns: object) -> Quarantined:
    raw = b"<record>\n<a>x & y</a>\n</record>"
    values = {
        "repository_id": repository.repository_id,
        "metadata_prefix": "oai_dc",
        "fault_key": uuid.uuid4(),
        "identifier": "oai:telc.example:1",
        "reason": "xmlParseEntityRef: no name, line 2",
        "failure_code": "record_xml",
        "url": "https://telc.example/oai?verb=ListRecords",
        "raw": raw,
        "raw_size": len(raw),
        "last_run": BEGAN,
        "history_id": run.history_id,
        **columns,
    }
    return Quarantined(**values)


async def test_a_date_range_that_could_not_be_listed_is_shown_with_its_cause(
    server: Server, viewer: Browser
) -> None:
    cause = {"code": "http_server_error", "status": 500}
    span = "2024-01-01 – 2024-02-01"  # noqa: RUF001 a dash
    code = "list_partly_read"
    with server.database.session() as session:
        telc = a_repository(session)
        telc.admin_email = "librarian@telc.example"
        run = a_run(
            session,
            telc,
            status=RunStatus.COMPLETED_WITH_ERRORS,
            verdict="partial",
            failure_code=code,
            failure_facts={"count": 2, "for": cause},
            failure_reason="2 date ranges could not be listed (http_server_error)",
            evidence={"unread": 2, "missing": 20},
        )
        values = {"identifier": None, "failure_code": code, "failure_facts": {"range": span, "for": cause}}
        session.add(_broken(telc, run, **values))
        token = {"for": {"code": "bad_token"}, "range": span}
        session.add(_broken(telc, run, **{**values, "failure_facts": token}))
        session.commit()

    _, summary = await viewer.get("/runs/1")
    _, listed = await viewer.get("/runs/1/errors")
    _, page = await viewer.get("/errors/1")

    assert "A part of the list could not be read" in summary
    assert "The repository reports an internal error." in summary
    assert "2 date ranges could not be listed; see Errors." in summary
    assert "The next harvest requests it again" in summary
    groups, _, letter = listed.partition('id="letter"')
    for part in (groups, letter):
        assert part.count("A part of the list could not be read") == 2, "one group for each cause"
        assert part.count(span) == 2
    assert f"Records of {span}" in page
    assert "A part of its list cannot be read." in page
    assert "One of its records" not in page


@pytest.mark.parametrize(
    ("code", "lacking", "outcome"),
    [
        ("list_ended_abruptly", {}, "It is not known whether all requested records were harvested."),
        ("list_ended_abruptly", {"invalid_count": 1}, "Only some of the requested records were harvested."),
        ("records_missing", {}, "Only some of the requested records were harvested."),
        ("tokens_refused", {}, "It is not known whether all requested records were harvested."),
        (
            "tokens_refused",
            {"evidence": {"missing": 1}},
            "Only some of the requested records were harvested.",
        ),
    ],
    ids=["abrupt", "abrupt and rejected", "missing", "tokens", "tokens and missing"],
)
async def test_a_list_that_may_have_ended_leaves_the_outcome_open(
    server: Server, viewer: Browser, code: str, lacking: dict[str, Any], outcome: str
) -> None:
    status = RunStatus.COMPLETED_WITH_ERRORS
    with server.database.session() as session:
        telc = a_repository(session)
        a_run(session, telc, status=status, verdict="partial", failure_code=code, **lacking)
        session.commit()
    _, page = await viewer.get("/runs/1")
    assert outcome in page


async def test_an_error_is_shown_with_its_raw_data(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        telc.admin_email = "librarian@telc.example"
        session.add(_broken(telc, a_run(session, telc)))
        session.commit()

    _, listed = await viewer.get("/runs/1/errors")
    _, page = await viewer.get("/errors/1")
    _, raw = await viewer.get("/errors/1/raw")

    assert "The record is broken XML" in listed
    assert '<li value="2" class="faulty">' in page
    assert "x &amp;amp; y" not in page.partition('id="repair"')[0], "the bytes are escaped once"
    assert "mailto:librarian@telc.example?subject=" in page
    assert "verb=GetRecord&amp;identifier=oai%3Atelc.example%3A1" in page
    assert raw == "<record>\n<a>x & y</a>\n</record>"


async def test_page_and_letter_name_the_same_place_of_a_fault(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        whole = "record 'oai:telc.example:1': xmlParseEntityRef: no name, line 1, column 372"
        session.add(_broken(telc, a_run(session, telc), reason=whole, raw=b"<record><a>x & y</a></record>"))
        session.add(_broken(telc, a_run(session, telc), reason="no datestamp", raw=b"<a>x & y</a>"))
        session.commit()

    _, page = await administrator.get("/errors/1")
    _, other = await administrator.get("/errors/2")

    assert "column 372" not in page
    assert "XML parser:" not in page
    assert page.count("xmlParseEntityRef: no name, line 1, column 15") == 2, "on the page and in the letter"
    assert "Line 1, column 15:" in page.partition('id="letter"')[2]
    assert '<span lang="en">no datestamp</span>' in other
    assert 'XML parser: <span lang="en">xmlParseEntityRef: no name, line 1, column 7</span>' in other


def test_control_characters_are_visible_and_undecodable_bytes_are_noted() -> None:
    view = view_of(b"<a>\x01\xff</a>")

    assert "\N{SYMBOL FOR START OF HEADING}" in view.lines[0].text
    assert view.encoding_note


def test_an_answer_without_bytes_has_no_fault() -> None:
    view = view_of(b"")

    assert (view.parser, view.quotation, [line.faulty for line in view.lines]) == ("", "", [False])


def test_only_the_part_of_a_long_answer_around_the_fault_is_shown() -> None:
    raw = b"<a>\n" + b"<b/>\n" * 1000 + b"&\n" + b"<b/>\n" * 1000 + b"</a>"

    view = view_of(raw)

    assert [line.number for line in view.lines if line.faulty] == [1002]
    assert (len(view.lines), view.total) == (121, 2003)


@pytest.mark.parametrize(
    ("before", "after", "cut_before", "cut_after"),
    [(5000, 5000, True, True), (10, 5000, False, True), (5000, 10, True, False), (10, 10, False, False)],
)
def test_long_line_is_quoted_around_the_fault_with_ellipses(
    before: int, after: int, *, cut_before: bool, cut_after: bool
) -> None:
    line = f"<a>{'ž' * before} x & y {'z' * after}</a>"

    view = view_of(f"<r>\n{line}\n</r>".encode())
    (faulty,) = (line for line in view.lines if line.faulty)

    for quoted in (view.quotation, faulty.text):
        assert "ž x & y z" in quoted
        assert (quoted.startswith("…"), quoted.endswith("…")) == (cut_before, cut_after)
    assert len(view.quotation) <= 302
    assert len(faulty.text) <= 2002


def test_a_fault_of_the_schema_is_marked_at_its_line() -> None:
    view = view_of(b"<a>\n<b/>\n</a>", line=2)

    assert [line.number for line in view.lines if line.faulty] == [2]


def test_errors_are_grouped_by_their_codes_the_largest_group_first(server: Server) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        run = a_run(session, telc)
        errors = [_broken(telc, run, reason=f"tag 'x{number}', line {number}") for number in range(3)]
        refused = _broken(telc, run, reason="HTTP status 500", failure_code="http_server_error")

        groups = grouped([refused, *errors, _broken(telc, run, failure_code=None)])

    assert [len(group.errors) for group in groups] == [3, 1, 1]
    assert [group.plain.partition(",")[0] for group in groups] == [
        "The record is broken XML",
        "The repository reports an internal error.",
        "The record could not be read.",
    ]


async def test_the_numbers_of_a_run_add_up_and_its_earlier_processes_are_linked(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        reached = {"reached": {"record_count": 50}}
        a_run(session, telc, status=RunStatus.INCOMPLETE, continued_by=2, evidence=reached)
        a_run(session, telc, record_count=124, invalid_count=3, new_count=117, repeated_count=5)
        session.commit()

    _, page = await viewer.get("/runs/2")
    _, earlier = await viewer.get("/runs/1")
    _, listed = await viewer.get("/runs.json")

    received = '<tr><th scope="row">Records received</th><td class="number"><span>127</span></td></tr>'
    assert received in page
    items = {"New": 117, "Repeated": 5, "Rejected": 3, "Other": 2}
    for label, count in items.items():
        assert re.search(rf'<th scope="row">{label}: [^<]+</th><td class="number"><span>{count}</span>', page)
    assert 'href="/runs/1"' in page
    assert 'href="/runs/2"' in earlier
    assert [row["history_id"] for row in json.loads(listed)] == [2]


async def test_the_history_is_exported_with_its_filter(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session, name="=cmd")
        a_run(session, telc, record_count=7)
        a_run(session, telc, status=RunStatus.FAILED)
        session.commit()

    _, table = await viewer.get("/runs.csv?status=failed")
    _, listed = await viewer.get("/runs.json")
    _, none = await viewer.get("/runs.json?status=lost")

    assert table.startswith("\ufeffrepository_name,"), "spreadsheets recognise UTF-8 by the byte order mark"
    assert listed.startswith("[")
    rows = list(csv.DictReader(table.removeprefix("\ufeff").splitlines()))
    assert [(row["status"], row["repository_name"]) for row in rows] == [("failed", "'=cmd")]
    assert [(row["history_id"], row["record_count"]) for row in json.loads(listed)] == [(2, 0), (1, 7)]
    assert json.loads(none) == []


async def test_filters_are_kept_from_page_to_page(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        for _ in range(30):
            a_run(session, telc, status=RunStatus.FAILED)
        a_run(session, telc)
        session.commit()

    _, page = await viewer.get("/runs?status=trouble&since=2026-01-01")

    assert "/runs?status=trouble&amp;since=2026-01-01&amp;before=6" in page


@pytest.mark.parametrize("day", ["0001-01-02", "9999-12-30"])
async def test_days_at_the_ends_of_the_calendar_are_refused(viewer: Browser, day: str) -> None:
    for view in ("", "timeline", "calendar", "totals"):
        assert (await viewer.get(f"/runs?view={view}&since={day}&until={day}"))[0] == 422


async def test_calendar_and_timeline_link_to_days_and_runs(server: Server, viewer: Browser) -> None:
    now = utc_now()
    with server.database.session() as session:
        a_run(
            session,
            a_repository(session),
            status=RunStatus.LOST,
            harvest_start_time=now,
            harvest_end_time=now,
        )
        session.commit()

    _, calendar = await viewer.get("/runs?view=calendar")
    _, timeline = await viewer.get("/runs?view=timeline")

    day = now.date().isoformat()
    assert f'href="/runs?since={day}&amp;until={day}"' in calendar
    assert "worst outcome: lost" in calendar
    assert 'href="/runs/1"' in timeline
    assert "Show as a table" in timeline
    assert "planned" not in timeline


def _rows(page: str) -> list[list[str]]:
    """Return the texts of the cells of all tables."""
    tree: Any = html.fromstring(page)
    return [[" ".join(" ".join(cell.itertext()).split()) for cell in row] for row in tree.xpath("//tbody/tr")]


async def test_totals_are_by_month_in_the_readers_time_zone_and_by_repository_and_format(
    server: Server, viewer: Browser
) -> None:
    counts = {"record_count": 1200, "new_count": 30, "updated_count": 2, "deleted_count": 1}
    at_night = datetime(2026, 9, 30, 22, 30, tzinfo=UTC)  # 1 October in Prague
    with server.database.session() as session:
        telc, trebic = a_repository(session), a_repository(session, "Třebíč", "trebic")
        for day, repository, more in (
            (at_night - timedelta(days=1), telc, {}),
            (at_night, telc, {}),
            (at_night, telc, {"metadata_prefix": "marc21", "status": RunStatus.FAILED}),
            (at_night, trebic, {"status": RunStatus.MISSED, **dict.fromkeys(counts, 0)}),
        ):
            ended = {"harvest_start_time": day, "harvest_end_time": day}
            a_run(session, repository, **{**counts, "metadata_prefix": "oai_dc", **ended, **more})
        session.commit()
    await viewer.post("/account/time-zone", {"time_zone": "Europe/Prague"})

    _, page = await viewer.get("/runs?view=totals&since=2026-09-15&until=2026-10-20")

    assert _rows(page) == [
        ["October 2026", "2", "1", "2,400", "60", "6"],
        ["September 2026", "1", "0", "1,200", "30", "3"],
        ["Library of Telč oai_dc", "2", "0", "2,400", "60", "6"],
        ["Library of Telč marc21", "1", "1", "1,200", "30", "3"],
    ]
    for days in ("since=2026-10-01&amp;until=2026-10-20", "since=2026-09-15&amp;until=2026-09-30"):
        assert f'href="/runs?{days}"' in page
    assert 'href="/runs?repository=1&amp;format=marc21&amp;since=2026-09-15&amp;until=2026-10-20&amp;' in page


async def test_the_timeline_shows_planned_runs_of_the_next_day(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_schedule(session, telc, frequency="every 6 hours")
        a_schedule(
            session, telc, frequency="monthly on 1 at 02:00", start_date=utc_now() + timedelta(days=90)
        )
        session.commit()

    _, timeline = await viewer.get("/runs?view=timeline")
    _, past = await viewer.get("/runs?view=timeline&status=failed")

    assert timeline.count('href="/schedules/1/edit"') == 4
    assert "/schedules/2/edit" not in timeline
    assert 'class="now"' in timeline
    assert "No runs in this period" in past


async def test_selected_entries_are_removed_after_confirmation(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        for _ in range(3):
            a_run(session, telc)
        session.commit()

    gone = {"run": ["99", "2"]}
    _, page, _ = await administrator.post("/runs/remove", gone)
    assert "Remove 1 entry from the history?" in page
    _, _, target = await administrator.post("/runs/remove", {**gone, "sure": "yes"})
    assert (await administrator.post("/runs/remove", {"run": "99", "sure": "yes"}))[0] == 404

    assert target == "/runs?done=runs-removed"
    with server.database.session() as session:
        assert session.scalars(select(History.history_id).order_by(History.history_id)).all() == [1, 3]


async def test_a_held_run_shows_what_it_would_change_and_is_approved(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        harvest = Harvest(repository_id=telc.repository_id, metadata_prefix="oai_dc")
        session.add(harvest)
        run = a_run(session, telc, status=RunStatus.HELD, verdict="partial", record_count=600, warnings=["x"])
        session.add(
            Hold(
                history_id=run.history_id,
                harvest_id=harvest.harvest_id,
                run_started=BEGAN,
                kind="updates",
                would_delete=0,
                would_update=500,
                active=600,
                allowed=20.0,
                sample=["oai:telc.example:1"],
            )
        )
        session.commit()

    _, page = await administrator.get("/runs/1")
    assert '<p class="said">Changes wait for approval.</p>' in page
    assert "The run waits for approval" in page
    assert "oai:telc.example:1" in page
    assert "Complete runs since then" in page
    assert "The run would change at least 500 of 600 records. It is held because" in page
    assert "the next run continues where this one stopped and stores the changes" in page
    headings = re.findall(r"<h2>([A-Z][a-z]+)", page)
    assert headings == ["Held", "Warnings", "Records", "Time"], "what to decide, then numbers"
    _, _, target = await administrator.post("/runs/1/release")

    assert target == "/runs/1?done=run-released"
    with server.database.session() as session:
        assert session.get_one(Hold, 1).state == "released"
    _, page = await administrator.get("/runs/1")
    assert '<p class="said">The held changes were approved; the next run applies them.</p>' in page


def _held_deletions(session: Session, sample: Sequence[str]) -> Repository:
    telc = a_repository(session)
    counts = {"record_count": 5, "unchanged_count": 3, "postponed_count": 2}
    run = a_run(session, telc, status=RunStatus.HELD, verdict="partial", **counts)
    a_hold(session, run, sample=list(sample))
    return telc


async def test_the_sample_of_a_held_run_leads_to_the_records(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        telc = _held_deletions(session, ["oai:telc.example:1", "oai:telc.example:2", "oai:telc.example:3"])
        for number in (2, 1):
            identifier = f"oai:telc.example:{number}"
            key = identifier_key(identifier)
            values = {"identifier": identifier, "metadata_prefix": "oai_dc", "datestamp": "2026"}
            session.add(Record(repository_id=telc.repository_id, identifier_key=key, **values))
        # Made from record 1, which was inserted last.
        described = a_bibliographic_record(session, telc, metadata_prefix="oai_dc", title="Slovník")
        described.identifier_key = key
        session.commit()

    _, page = await administrator.get("/runs/1")
    held = page.partition('id="held"')[2].partition("</section>")[0]

    assert "Sample: 3 of 1,300 records" in held
    links = re.findall(r'<li>(?:<a href="([^"]*)">)?(.*?)(?:</a>|</span>)', held)
    assert links == [
        ("/records/2", "Slovník"),
        ("/records/1", '<span class="mono">oai:telc.example:2'),
        ("", '<span class="mono">oai:telc.example:3'),
    ]
    question = "/repositories/1/explorer?verb=GetRecord&amp;identifier=oai%3Atelc.example%3A3"
    assert f'href="{question}&amp;metadataPrefix=oai_dc"' in held


async def test_held_deletions_are_approved_only_after_a_question(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        _held_deletions(session, [])
        session.commit()

    _, page = await administrator.get("/runs/1")
    _, changes = await administrator.get("/runs/1/changes")
    _, question = await administrator.get("/runs/1/release")

    assert 'href="/runs/1/release"' in page
    assert 'action="/runs/1/release"' not in page
    assert "<dt>To delete</dt><dd>1,300</dd>" in page
    assert "<dt>To be deleted</dt>" not in page
    assert "5 records: 3 unchanged, 2 reported as deleted." in page
    assert 'href="/runs/1#held"' in changes
    assert "Delete 1,300 records of Library of Telč?" in question
    assert "Approve: delete 1,300 records" in question
    await administrator.post("/runs/1/release")
    assert (await administrator.get("/runs/1/release"))[0] == 400


async def test_page_of_a_held_run_says_what_approving_deletes(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        _held_deletions(session, ["oai:telc.example:1"])
        session.commit()

    _, page = await viewer.get("/runs/1")

    assert "The run would delete 1,300 of 4,000 records." in page
    assert "It is held because without approval a run may delete at most 12.5 %." in page
    assert "Approving deletes these records from the store at once." in page


_APPLIED = "Zadržené změny byly schváleny a provedeny."


@pytest.mark.parametrize(
    ("state", "headline", "advice", "in_czech"),
    [
        (HoldState.RELEASED, _APPLIED, "Není třeba nic dělat.", "schváleno"),
        (HoldState.DONE, _APPLIED, "Není třeba nic dělat.", "hotovo"),
        (
            HoldState.SUPERSEDED,
            "Zadržené změny nebyly provedeny.",
            "Pozdější běh má novější výsledky",
            "nahrazeno",
        ),
    ],
)
async def test_a_held_run_that_was_decided_is_not_shown_as_waiting(
    server: Server, administrator: Browser, state: HoldState, headline: str, advice: str, in_czech: str
) -> None:
    approved, now = state is not HoldState.SUPERSEDED, datetime.now(UTC)
    with server.database.session() as session:
        telc = a_repository(session)
        harvest = Harvest(repository_id=telc.repository_id, metadata_prefix="oai_dc")
        session.add(harvest)
        run = a_run(
            session, telc, status=RunStatus.HELD, verdict="partial", record_count=60, unchanged_count=60,
            deleted_count=170, disappeared_count=170, harvest_start_time=now, harvest_end_time=now,
            failure_code=FailureCode.RELEASED if approved else FailureCode.HELD, failure_facts={},
        )  # fmt: skip
        hold = Hold(
            history_id=run.history_id, harvest_id=harvest.harvest_id, run_started=now, kind="deletions",
            would_delete=170, active=230, allowed=20.0, state=state, decided=now,
        )  # fmt: skip
        session.add(hold)
        session.commit()
    await administrator.post("/account/language", {"language": "cs"})

    _, page = await administrator.get("/runs/1")
    _, overview = await administrator.get("/")
    _, troubled = await administrator.get("/repositories?state=trouble")

    assert "Běh čeká na schválení" not in page
    assert f'<p class="said">{headline}</p>' in page
    for shown in (page, (await administrator.get("/runs"))[1]):
        assert ("<span>zadrženo, schváleno</span>" in shown) is approved
    assert "<span>částečné</span>" not in page
    assert advice in page
    assert f"<dd>{in_czech}" in page
    assert "Smazáno, v seznamu chybí</dt><dd>170<" in page
    for listed in (overview, troubled):
        assert ("Library of Telč" in listed.partition("<main")[2]) is not approved


async def test_a_run_is_compared_with_the_usual_run(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_run(session, telc)
        a_run(session, telc, harvest_end_time=BEGAN + timedelta(hours=1), record_count=5, new_count=5)
        session.commit()

    _, page = await viewer.get("/runs/2")

    assert "much longer than usual (1:00 min)" in page
    assert "5 records, all new." in page


async def test_a_run_with_only_rejected_records_is_not_shown_as_empty(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session), invalid_count=8)
        session.commit()

    _, page = await viewer.get("/runs/1")

    assert "8 rejected; see Errors." in page
    assert "No records received" not in page


_NOWHERE = ("/runs/9", "/runs/9/errors", "/errors/9", "/errors/9/raw", "/records/9")


async def test_unknown_runs_errors_and_records_are_not_found(viewer: Browser) -> None:
    for path in _NOWHERE:
        assert (await viewer.get(path))[0] == 404, path


async def test_a_viewer_cannot_approve_or_remove_runs(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session))
        session.commit()

    for path in ("/runs/1/release", "/runs/remove", "/runs/1/remove"):
        assert (await viewer.post(path, {"run": "1", "sure": "yes"}))[0] == 403
    with server.database.session() as session:
        assert session.scalars(select(func.count()).select_from(History)).one() == 1


async def test_the_log_is_filtered_by_level_and_downloaded_as_a_file(server: Server, viewer: Browser) -> None:
    url = "https://telc.example/oai?verb=ListRecords"
    reason = "xmlParseEntityRef: no name, line 2"
    with server.database.session() as session:
        telc = a_repository(session)
        warnings = [
            f"{url}, byte 120: record 'oai:telc.example:1': {reason}",
            f"{url}, byte 130: record 'oai:telc.example:2': forgotten since",
            f"{url}: the Content-Type is wrong",
        ]
        broken = _broken(telc, a_run(session, telc), byte_offset=120, reason=reason)
        refused: list[dict[str, str] | None] = [
            {"code": "record_xml", "fault_key": key} for key in (broken.fault_key.hex, "gone since")
        ]
        run = a_run(
            session,
            telc,
            warnings=warnings,
            warning_failures=[*refused, None],
            failure_reason="HTTP status 500",
            status="failed",
        )
        broken.history_id = run.history_id
        session.add(broken)
        session.commit()

    _, everything = await viewer.get("/runs/2/log")
    _, errors = await viewer.get("/runs/2/log?level=error")
    _, kept = await viewer.get("/runs/2/log.txt?level=warning")

    assert "Everything (6)" in everything
    assert "The harvest started" in everything
    assert 'href="/errors/1"' in errors
    assert "forgotten since" in errors
    assert '<span class="why">The record is broken XML, for example a bracket' in errors
    assert '<span class="reason" lang="en">HTTP status 500</span>' in errors
    assert errors.count("<time ") == 1, "that of the failure, which ended the run"
    assert "the Content-Type is wrong" not in errors
    assert [line.split()[0] for line in kept.splitlines()[1:]] == ["ERROR", "ERROR", "WARNING", "ERROR"]
    for path in ("/runs/2/log", "/runs/2/log.txt"):
        status, page = await viewer.get(f"{path}?level=bogus")
        assert (status, "the invalid filter level=bogus." in page) == (422, True), path


async def test_the_parameters_of_a_run_are_shown_with_its_schedule(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        schedule = a_schedule(session, telc)
        a_run(
            session,
            telc,
            recurring_id=schedule.id,
            set_spec="maps",
            evidence=Evidence(end=End.EMPTY_TOKEN, listed=7, changes=1).as_json(),
        )
        a_run(session, telc)
        session.commit()

    _, page = await viewer.get("/runs/1/parameters")
    _, by_hand = await viewer.get("/runs/2/parameters")

    assert "every day at 02:30" in page
    assert "--data-urlencode set=maps" in page
    assert "<dt>End of the list</dt><dd>with an empty resumptionToken</dd>" in page
    assert "<dt>Records listed</dt><dd>7</dd>" in page
    stored = Evidence(end=End.EMPTY_TOKEN, listed=7, changes=1).as_json()
    assert stored.keys() <= EVIDENCE.keys(), "what is added needs words"
    assert set(End) == ENDS.keys()
    assert "the run was started manually" in by_hand


async def test_lists_are_exported_with_the_filter_in_the_address(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc, other = a_repository(session), a_repository(session, name="Jihlava", folder="jihlava")
        run = a_run(session, telc)
        a_schedule(session, telc)
        run_now(session, a_schedule(session, other, frequency=None).id)
        session.add_all([_broken(telc, run), _broken(telc, run, identifier="oai:telc.example:2")])
        add_record = (
            "INSERT INTO oai_record (repository_id, identifier, identifier_key, datestamp, metadata_prefix) "
            "SELECT 1, 'oai:x:' || i, md5(i::text)::uuid, '2026-01-01', 'oai_dc' "
            "FROM generate_series(1, 1500) i"
        )
        session.execute(text(add_record))
        session.commit()

    sizes = {
        "/repositories.json": 2, "/repositories.json?find=jihl": 1,
        "/repositories.json?state=never&sort=-name": 1, "/schedules.json": 2, "/jobs.json": 1,
        "/repositories/1/records.json": 1500, "/repositories/2/records.json": 0, "/runs/1/errors.json": 2,
    }  # fmt: skip
    for path, size in sizes.items():
        status, listed = await viewer.get(path)
        _, table = await viewer.get(path.replace(".json", ".csv"))
        assert (status, len(json.loads(listed))) == (200, size), path
        assert len(list(csv.DictReader(table.splitlines()))) == size, path


@pytest.mark.parametrize(
    "code", ["repository_locked", "repository_busy", "disk_full", "process_exited", "server_busy"]
)
async def test_a_failure_without_fault_of_the_repository_has_no_letter(
    server: Server, administrator: Browser, code: str
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        telc.admin_email = "librarian@telc.example"
        run = a_run(session, telc, status=RunStatus.FAILED, verdict="failed", failure_code=code)
        session.commit()
        number = run.history_id

    _, page = await administrator.get(f"/runs/{number}")

    assert "Run again" in page
    assert "Write to the administrator" not in page
    assert "Dear colleague" not in page


async def test_the_letter_repeats_the_request_that_failed(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        telc.admin_email = "librarian@telc.example"
        failed = {"status": RunStatus.FAILED, "verdict": "failed", "failure_code": "http_gone"}
        asked = "https://telc.example/oai?verb=Identify"
        a_run(session, telc, **failed, failure_reason=f"{asked}: HTTP status 404")
        a_run(session, telc, **failed, failure_reason="https://telc.example/oai moved: HTTP status 404")
        session.commit()

    _, page = await administrator.get("/runs/1")
    _, parameters = await administrator.get("/runs/1/parameters")
    _, unnamed = await administrator.get("/runs/2")

    command = f"curl --compressed &#39;{asked}&#39;"
    assert command in page.partition('id="letter"')[2]
    assert command in parameters
    assert "verb=ListRecords" in unnamed.partition('id="letter"')[2]


async def test_the_letter_about_a_strict_run_does_not_count_the_record_that_ended_it(
    server: Server, administrator: Browser
) -> None:
    failed = {"status": RunStatus.FAILED, "verdict": "failed", "failure_code": "records_refused"}
    with server.database.session() as session:
        a_run(session, a_repository(session), **failed, record_count=0, invalid_count=1)
        session.commit()

    _, page = await administrator.get("/runs/1")

    assert "Records received before: 0" in page.partition('id="letter"')[2]


async def test_a_run_with_rejected_records_leads_to_them(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        telc.admin_email = "librarian@telc.example"
        a_run(session, telc, status=RunStatus.COMPLETED_WITH_ERRORS, verdict="partial", invalid_count=9)
        session.commit()

    _, page = await administrator.get("/runs/1")

    assert '<a class="button primary" href="/runs/1/errors">Show rejected records</a>' in page
    assert "Run again" in page
    assert 'id="letter"' not in page, "the pages of the records have letters"


async def test_a_run_that_received_only_a_part_has_a_letter_that_says_so(
    server: Server, administrator: Browser
) -> None:
    partial = {"status": RunStatus.COMPLETED_WITH_ERRORS, "verdict": "partial"}
    with server.database.session() as session:
        telc = a_repository(session)
        telc.admin_email = "librarian@telc.example"
        a_run(session, telc, **partial, failure_code="tokens_refused", record_count=40)
        a_run(session, telc, **partial, failure_code="interrupted")
        session.commit()

    _, page = await administrator.get("/runs/1")
    letter = page.partition('id="letter"')[2]

    assert "Run again" in page
    assert 'href="mailto:librarian@telc.example?subject=' in page
    assert "The last harvest may have received only some of the records." in letter
    assert "The last harvest failed." not in letter
    assert "Records received: 40" in letter
    assert 'id="letter"' not in (await administrator.get("/runs/2"))[1], "the repository is not the cause"


async def test_a_failed_run_offers_the_next_steps(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        telc.admin_email = "librarian@telc.example"
        schedule = a_schedule(session, telc, metadata_prefix="oai_dc")
        run = a_run(
            session, telc, status=RunStatus.FAILED, verdict="failed", recurring_id=schedule.id,
            failure_code="transport", failure_reason="Connection refused",
            harvest_end_time=datetime(2026, 3, 7, 8, 5, tzinfo=UTC),
        )  # fmt: skip
        other = a_run(session, telc, status=RunStatus.FAILED, verdict="failed", set_spec="maps")
        session.commit()
        first, second = run.history_id, other.history_id

    _, page = await administrator.get(f"/runs/{first}?letter=cs")
    _, unplanned = await administrator.get(f"/runs/{second}")
    status, _, target = await administrator.post("/schedules/1/run")
    _, afterwards = await administrator.get(f"/runs/{first}")

    assert 'action="/schedules/1/run"' in page
    assert "Run again" in page
    assert 'href="/schedules/1/edit"' in page
    assert 'href="mailto:librarian@telc.example?subject=' in page
    assert "Connection refused" in page.partition('id="letter"')[2]
    assert "7. 3. 2026 8:05 UTC" in page.partition('id="letter"')[2]
    assert '<pre id="letter" tabindex="0" class="letter" lang="cs"' in page
    assert 'name="set_spec" value="maps"' in unplanned
    assert (status, target) == (303, "/jobs/1?done=harvest-asked")
    assert "Show job 1, which repeats it" in afterwards


async def test_a_failed_run_started_by_hand_links_to_the_recurring_schedule(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        failed = {"status": RunStatus.FAILED, "verdict": "failed"}
        for prefix in ("oai_dc", "marc21"):
            once = a_schedule(session, telc, metadata_prefix=prefix, frequency=None)
            a_run(session, telc, **failed, metadata_prefix=prefix, recurring_id=once.id)
        a_schedule(session, telc, metadata_prefix="oai_dc")
        session.commit()

    _, page = await administrator.get("/runs/1")
    _, alone = await administrator.get("/runs/2")

    assert "Change schedule" in page
    assert 'href="/schedules/3/edit"' in page
    assert "/schedules/1/edit" not in page
    assert "Change schedule" not in alone


async def test_a_failed_run_shows_when_it_is_retried(server: Server, administrator: Browser) -> None:
    busy = ServerBusyError("https://telc.example/oai?verb=Identify", 503, 3600)
    with server.database.session() as session:
        telc = a_repository(session)
        failed = {"status": RunStatus.FAILED, "verdict": "failed", "failure_code": "server_busy"}
        a_run(session, telc, **failed, failure_reason=str(busy))
        due = datetime(2100, 1, 2, 3, 4, tzinfo=UTC)
        session.add(Job(repository_id=1, metadata_prefix="oai_dc", harvest_start_time=due, attempt=1))
        session.commit()

    _, page = await administrator.get("/runs/1")

    assert re.search(
        r"<p>Next try: <time [^>]*2100-01-02T03:04[^>]*>[^(]*\(<a href=\"/jobs/1\">job 1</a>\)", page
    )
    assert "retry in 3,600 seconds" in page
    assert "run the same command" not in page


@pytest.mark.parametrize(("counts", "button"), [({"pages": 1}, "Resume"), ({}, "Run again")])
async def test_an_interrupted_run_can_be_resumed_if_it_has_received_pages(
    server: Server, administrator: Browser, counts: dict[str, int], button: str
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        harvest = Harvest(
            repository_id=telc.repository_id,
            metadata_prefix="oai_dc",
            run_parameters={"kind": "x"},
            counts=counts,
        )
        session.add(harvest)
        session.flush()
        run = a_run(session, telc, status=RunStatus.KILLED, harvest_id=harvest.harvest_id)
        session.commit()
        number = run.history_id

    _, page = await administrator.get(f"/runs/{number}")

    assert f"{button}</button>" in page


async def test_the_crumbs_of_a_run_lead_to_its_repository(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        number = a_run(session, a_repository(session)).history_id
        session.commit()

    for path in ("", "/log", "/errors", "/requests", "/changes", "/parameters"):
        _, page = await viewer.get(f"/runs/{number}{path}")
        crumbs = page.partition('<nav class="crumbs"')[2].partition("</nav>")[0]
        assert '<a href="/repositories/1">Library of Telč</a>' in crumbs, path
