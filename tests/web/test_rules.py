"""Rules in the dashboard: rows or XML over one file, tried before they are saved."""

import hashlib
import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from lxml import html
from sqlalchemy import select, update

from harvester.harvest.preparation import RULES_CHANGED
from harvester.models import Harvest, Record, Repository
from harvester.rule_lab.models import Rule, RuleVersion
from manager.models import Job
from manager.schedules.service import add_schedule, pause_schedule
from oai.audit import AuditEntry
from tests.harvester.rule_lab.records import FILTERS, a_record
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run
from web.auth.organisations import find_organisation, give_repository

_ROWS = {
    "kind": "filter",
    "view": "rows",
    "name": "Culture",
    "match": "all",
    "prefix-0": "dc",
    "uri-0": "http://purl.org/dc/elements/1.1/",
    "xpath-2": "//dc:subject",
    "regexp-2": "cultur",
    "ignore-2": "yes",
}


@pytest.fixture
def repository(server: Server) -> int:
    """A repository of mzk with two stored records."""
    with server.database.session() as session:
        telc = a_repository(session)
        organisation = find_organisation(session, "mzk")
        assert organisation is not None
        give_repository(session, telc.repository_id, organisation.organisation_id)
        folder = server.settings.store / telc.base_dir
        folder.mkdir(parents=True)
        for number, subject in enumerate(("Cultural monuments", "Botany"), start=1):
            data = a_record(number, subject=subject)
            (folder / f"{number}.xml").write_bytes(data)
            digest = hashlib.sha256(data).digest()
            session.add(
                Record(
                    repository_id=telc.repository_id,
                    identifier=f"oai:x:{number}",
                    identifier_key=uuid.UUID(bytes=digest[:16]),
                    filename=f"{number}.xml",
                    datestamp="2026-01-01",
                    metadata_prefix="oai_dc",
                    digest=digest,
                )
            )
        session.commit()
        return telc.repository_id


def _file(server: Server) -> Path:
    return server.settings.data / "rules" / "organisation-1" / "culture.xml"


async def test_rows_are_tried_and_saved_as_a_file(server: Server, owner: Browser, repository: int) -> None:
    rows = {**_ROWS, "repository_id": str(repository)}

    tried = {**rows, "do": "try", "sample_repository": str(repository), "sample_samples": "10"}
    status, text, _ = await owner.post("/rules/new", tried)
    assert status == 200, text
    assert "2 of 2 samples were tried." in text
    assert "kept: 1" in text
    assert "filtered out: 1" in text
    assert not _file(server).exists()

    status, text, target = await owner.post("/rules/new", {**rows, "do": "save", "note": "first"})
    assert (status, target) == (303, "/rules/1?done=rule-made"), text
    assert b'<filter xpath="//dc:subject" regexp="cultur" ignoreCase="true"/>' in _file(server).read_bytes()
    _, text = await owner.get("/rules/1")
    assert "Version 1" in text
    assert "Olga" in text
    assert "rules/organisation-1/culture.xml" in (await owner.get("/rules"))[1]


async def test_a_rule_that_never_matches_is_reported(owner: Browser, repository: int) -> None:
    rows = {**_ROWS, "xpath-3": "//dc:coverage", "regexp-3": "."}
    _, text, _ = await owner.post("/rules/new", {**rows, "do": "try", "sample_repository": str(repository)})
    assert text.count("No sample matches it.") == 1


async def test_errors_are_reported_at_their_fields(owner: Browser, repository: int) -> None:
    await owner.post("/account/language", {"language": "cs"})
    faulty = {**_ROWS, "regexp-2": "(", "prefix-3": "mods", "repository_id": str(repository), "do": "save"}
    status, text, _ = await owner.post("/rules/new", faulty)
    root: Any = html.fromstring(text)
    assert status == 422
    fault = root.xpath("string(//p[@id='regexp-2-fault'])")
    assert "regulární výraz '(' není platný: missing ): (; zapište ho v syntaxi RE2: https" in fault
    assert root.xpath("//p[@id='regexp-2-fault']//code[@lang='en']/text()") == ["missing ): ("]
    assert root.xpath("//details[@open]//p[@class='fault']/@id") == ["uri-3-fault"]

    written = {"kind": "filter", "view": "xml", "content": FILTERS.decode().replace('"cultur"', '"("')}
    status, text, _ = await owner.post("/rules/new", {**written, "do": "rows"})
    assert status == 422
    assert "Řádek 3, sloupec 32: regulární výraz" in text
    assert 'id="content-fault"' in text

    written["content"] = "<filters>\n<filter xpath='a'>"
    _, text, _ = await owner.post("/rules/new", {**written, "do": "save"})
    assert "Řádek 3, sloupec 1: není správně utvořené XML: <code lang=" in text


async def test_a_rule_is_edited_as_conditions_on_fields_of_stored_records(
    server: Server, owner: Browser, repository: int
) -> None:
    _, page = await owner.get(f"/rules/new?repository={repository}")
    root: Any = html.fromstring(page)
    fields = dict(
        zip(
            *(root.xpath(f"//select[@id='field-0']/option/{what}") for what in ("@value", "text()")),
            strict=True,
        )
    )
    hidden = {one.get("name"): one.get("value") for one in root.xpath("//main//input[@type='hidden']")}
    rule = {
        **hidden,
        "name": "culture",
        "repository_id": str(repository),
        "sample_repository": str(repository),
        "match": "all",
        "field-0": "//dc:subject",
        "operator-0": "contains",
        "value-0": "CULTURAL",
        "field-1": "//dc:subject",
        "operator-1": "lacks",
        "value-1": "botany",
    }
    _, tried, _ = await owner.post("/rules/new", {**rule, "do": "try"})
    faulty = {
        **rule,
        "value-0": "",
        "field-1": "",
        "field-2": "//dc:date",
        "operator-2": "since",
        "value-2": "x",
    }
    status, faults, _ = await owner.post("/rules/new", {**faulty, "do": "save"})
    _, experts, _ = await owner.post("/rules/new", {**rule, "do": "rows"})
    _, _, saved = await owner.post("/rules/new", {**rule, "do": "save"})
    _, again = await owner.get("/rules/1/edit")
    root = html.fromstring(again)

    assert "Botany" in fields["//dc:subject"]
    assert "Cultural monuments" in fields["//dc:subject"]
    assert "kept: 1" in tried
    assert "filtered out: 1" in tried
    assert status == 422
    assert re.findall('id="([a-z]+-[0-9])-fault"', faults) == ["value-0", "field-1", "value-2"]
    assert "count(//dc:subject[contains(" in experts
    assert saved == "/rules/1?done=rule-made"
    content = _file(server).read_bytes()
    assert content.count(b"xmlns:") == 1, "only namespaces that are used"
    assert root.xpath("//select[contains(@id, 'operator-')]/option[@selected]/@value") == [
        "contains",
        "lacks",
    ]
    assert root.xpath("//input[contains(@id, 'value-')]/@value")[:2] == ["cultural", "botany"]


async def test_an_old_condition_on_the_first_year_is_kept_and_not_offered_for_new_rules(
    owner: Browser,
) -> None:
    xpath = "number(substring(//dc:date, 1, 4)) &gt;= 2010"
    old = FILTERS.decode().partition("<filter ")[0]
    old += f'<filter xpath="{xpath}" regexp="^true$" ignoreCase="true"/></filters>'
    form = {"kind": "filter", "view": "xml", "content": old, "do": "conditions"}

    _, page, _ = await owner.post("/rules/new", form)
    _, empty = await owner.get("/rules/new")

    root: Any = html.fromstring(page)
    assert root.xpath("//select[@id='operator-0']/option[@selected]/@value") == ["first since"]
    label = "has … or later in the first four characters of its first value"
    assert label in root.xpath("//select[@id='operator-0']/option/text()")
    assert "first four characters" not in empty


@pytest.mark.parametrize("view", ["conditions", "rows"])
async def test_a_filter_without_conditions_is_refused_with_a_message(owner: Browser, view: str) -> None:
    form = {"kind": "filter", "view": view, "name": "Empty", "do": "save"}

    status, page, _ = await owner.post("/rules/new", form)

    root: Any = html.fromstring(page)
    faults = [one.text_content().strip() for one in root.find_class("fault")]
    assert (status, faults) == (422, ["Add at least one condition."])


async def test_rows_are_converted_to_xml_and_back(owner: Browser) -> None:
    _, text, _ = await owner.post("/rules/new", {**_ROWS, "do": "xml"})
    assert "&lt;filters match=&#34;all&#34;&gt;" in text
    _, text, _ = await owner.post(
        "/rules/new", {"kind": "filter", "view": "xml", "content": FILTERS.decode(), "do": "rows"}
    )
    assert 'name="xpath-1" value="//dc:coverage"' in text


async def _saved(server: Server, owner: Browser, repository: int) -> None:
    content = FILTERS.decode().replace("<filter ", "<!-- why --><filter ", 1)
    form = {"kind": "filter", "view": "xml", "name": "Culture", "content": content, "do": "save"}
    status, text, _ = await owner.post("/rules/new", {**form, "repository_id": str(repository)})
    assert status == 303, text
    assert b"<!-- why -->" in _file(server).read_bytes()


async def test_equal_rows_keep_the_file_and_changed_rows_remove_its_comments(
    server: Server, owner: Browser, repository: int
) -> None:
    await _saved(server, owner, repository)
    _, text = await owner.get("/rules/1/edit")
    assert "The table cannot hold these comments" in text
    same = {
        **_ROWS,
        "match": "any",
        "xpath-3": "//dc:coverage",
        "regexp-3": ".",
        "based_on": "1",
        "do": "save",
    }
    assert (await owner.post("/rules/1/edit", same))[0] == 303
    assert b"<!-- why -->" in _file(server).read_bytes()

    other = {**same, "regexp-3": "x"}
    assert (await owner.post("/rules/1/edit", other))[::2] == (303, "/rules/1?done=rule-saved-unused")
    assert b"<!-- why -->" not in _file(server).read_bytes()
    with server.database.session() as session:
        assert session.scalars(select(RuleVersion.number).order_by(RuleVersion.number)).all() == [1, 2]

    status, text, _ = await owner.post("/rules/1/edit", other | {"regexp-3": "y"})
    assert (status, "Somebody has changed this in the meantime" in text) == (409, True)
    assert 'href="/rules/1/edit"' in text
    assert (await owner.get("/rules/1/edit?version=1"))[0] == 200
    for version in ("99", "99999999999", "bogus"):
        assert (await owner.get(f"/rules/1/edit?version={version}"))[0] == 404, version
    assert 'name="based_on" value="2"' in (await owner.get("/rules/1"))[1]
    assert (await owner.post("/rules/1/restore", {"version": "1", "based_on": "1"}))[0] == 409
    assert b"<!-- why -->" not in _file(server).read_bytes()
    assert (await owner.post("/rules/1/restore", {"version": "1", "based_on": "2"}))[0] == 303
    assert b"<!-- why -->" in _file(server).read_bytes()

    _file(server).write_bytes(b"<filters/>")
    await owner.post("/account/language", {"language": "cs"})
    _, text = await owner.get("/rules/1")
    assert "znovu verze 1" in text
    assert "--- verze 1\n+++ verze 2\n" in text
    assert "řádek 1, sloupec 1: &lt;filters&gt; neobsahuje žádný prvek &lt;filter&gt;" in text


async def test_a_rule_shows_its_schedules_and_the_run_that_last_used_it(
    server: Server, owner: Browser, repository: int
) -> None:
    await _saved(server, owner, repository)
    with server.database.session() as session:
        digest = session.scalars(select(RuleVersion.digest)).one()
        add_schedule(
            session,
            repository_id=repository,
            frequency="daily at 02:30",
            metadata_prefix="oai_dc",
            filter_file_path=str(_file(server).resolve()),
        )
        run = a_run(session, session.get_one(Repository, repository), filter_digest=digest)
        session.commit()
        number = run.history_id
    _, text = await owner.get("/rules/1")
    assert "every day at 02:30" in text
    assert f"Last used by run {number}" in text
    form = {**_ROWS, "match": "any", "based_on": "1", "do": "save"}
    assert (await owner.post("/rules/1/edit", form))[::2] == (303, "/rules/1?done=rule-saved")
    _, text = await owner.get(f"/runs/{number}/parameters")
    assert '<a href="/rules/1">Culture, version 1</a>' in text


def _changes_harvested(server: Server, repository: int, **columns: Any) -> int:
    """Add a schedule of changes with the saved rule that has harvested everything; return its number."""
    with server.database.session() as session:
        digest = session.scalars(select(RuleVersion.digest)).one()
        harvest = Harvest(
            repository_id=repository, metadata_prefix="oai_dc", watermark="2026-01-02T03:04:05Z"
        )
        session.add(harvest)
        session.flush()
        row = session.get_one(Repository, repository)
        a_run(session, row, filter_digest=digest, harvest_id=harvest.harvest_id)
        values = {"frequency": "daily at 02:30", "incremental": True, **columns}
        file = str(_file(server).resolve())
        number = add_schedule(session, repository_id=repository, filter_file_path=file, **values).id
        session.commit()
        return number


async def test_a_changed_rule_is_applied_to_all_records_by_one_full_harvest_of_its_schedules(
    server: Server, owner: Browser, viewer: Browser, repository: int
) -> None:
    await _saved(server, owner, repository)
    schedule = _changes_harvested(server, repository)
    button = 'action="/rules/1/harvest-all"'
    assert button not in (await owner.get("/rules/1"))[1]

    changed = {**_ROWS, "match": "any", "regexp-2": "botan", "based_on": "1", "do": "save"}
    _, _, target = await owner.post("/rules/1/edit", changed)
    assert target == "/rules/1?done=rule-saved-unused", "the next harvest does not apply it to all records"
    _, page = await owner.get(target)
    assert "the rule applies only to records received from now on" in page
    assert f'<a href="/schedules/{schedule}/edit">Library of Telč' in page.split(button)[0]
    _, seen = await viewer.get("/rules/1")
    assert ("applies only to records" in seen, button in seen) == (True, False)

    with server.database.session() as session:
        run = a_run(
            session,
            session.get_one(Repository, repository),
            recurring_id=schedule,
            verdict="partial",
            warnings=[RULES_CHANGED.text],
            warning_failures=[{"code": "rules_changed", "facts": {}}],
        )
        session.commit()
        warned = f"/runs/{run.history_id}"
    assert f'action="/schedules/{schedule}/harvest-all"' in (await owner.get(warned))[1]

    for _click in range(2):
        assert (await owner.post("/rules/1/harvest-all"))[::2] == (303, "/rules/1?done=everything-asked")
    assert button not in (await owner.get("/rules/1"))[1]
    assert "harvest-all" not in (await owner.get(warned))[1]
    with server.database.session() as session:
        assert session.scalars(select(Harvest.watermark)).all() == [None]
        assert session.scalars(select(Job.recurring_id)).all() == [schedule]
        runs = session.scalars(select(AuditEntry.object_id).where(AuditEntry.action == "schedule.run"))
        assert runs.all() == [str(schedule)]


async def test_schedules_beyond_those_on_the_page_of_a_rule_are_found(
    server: Server, owner: Browser, repository: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _saved(server, owner, repository)
    _changes_harvested(server, repository)
    monkeypatch.setattr("web.rules.pages.uses_of", lambda *_, **_among: [])
    changed = {**_ROWS, "match": "any", "regexp-2": "botan", "based_on": "1", "do": "save"}
    await owner.post("/rules/1/edit", changed)

    _, page = await owner.get("/rules/1")

    assert "and 1 more" in page
    assert 'action="/rules/1/harvest-all"' in page


async def test_a_paused_schedule_stays_paused_and_requests_all_records_at_its_next_run(
    server: Server, owner: Browser, repository: int
) -> None:
    await _saved(server, owner, repository)
    schedule = _changes_harvested(server, repository)
    with server.database.session() as session:
        pause_schedule(session, schedule)
        session.commit()
    await owner.post("/rules/1/edit", {**_ROWS, "regexp-2": "botan", "based_on": "1", "do": "save"})

    await owner.post("/rules/1/harvest-all")

    with server.database.session() as session:
        assert session.scalars(select(Harvest.watermark)).all() == [None]
        assert session.scalars(select(Job)).all() == []


async def test_a_schedule_of_changes_that_gets_a_rule_offers_one_full_harvest(
    server: Server, owner: Browser, repository: int
) -> None:
    await _saved(server, owner, repository)
    schedule = _changes_harvested(server, repository)
    _, form = await owner.get(f"/schedules/{schedule}/edit")
    tree: Any = html.fromstring(form)
    (filled,) = [one for one in tree.forms if one.action == f"/schedules/{schedule}/edit"]
    sent = {**dict(filled.form_values()), "filter_file_path": "", "do": "save"}

    status, page, target = await owner.post(f"/schedules/{schedule}/edit", sent)

    assert (status, target) == (303, f"/schedules/{schedule}/edit?done=schedule-changed"), page
    button = f'action="/schedules/{schedule}/harvest-all"'
    assert button in (await owner.get(target))[1]
    _, _, after = await owner.post(f"/schedules/{schedule}/harvest-all")
    assert after == f"/schedules/{schedule}/edit?done=everything-asked"
    assert button not in (await owner.get(after))[1]
    with server.database.session() as session:
        assert session.scalars(select(Job.recurring_id)).all() == [schedule]


@pytest.mark.parametrize(
    ("schedule", "harvest"),
    [
        ({"incremental": False}, {}),
        ({"harvest_from": "2020-01-01"}, {"complete_from": "2021-01-01"}),
        ({}, {"watermark": None}),
        ({"metadata_prefix": "marc21"}, {}),
    ],
    ids=["full", "from an earlier date", "everything is requested already", "nothing harvested"],
)
async def test_a_schedule_whose_next_harvest_requests_everything_applies_a_changed_rule(
    server: Server,
    owner: Browser,
    repository: int,
    schedule: dict[str, Any],
    harvest: dict[str, Any],
) -> None:
    await _saved(server, owner, repository)
    _changes_harvested(server, repository, **schedule)
    with server.database.session() as session:
        session.execute(update(Harvest).values({"watermark": Harvest.watermark, **harvest}))
        session.commit()

    changed = {**_ROWS, "regexp-2": "botan", "based_on": "1", "do": "save"}

    assert (await owner.post("/rules/1/edit", changed))[::2] == (303, "/rules/1?done=rule-saved")


async def test_partners_add_rules_only_for_their_own_repositories(
    server: Server, colleague: Browser, repository: int
) -> None:
    status, text, _ = await colleague.post("/rules/new", {**_ROWS, "do": "save"})
    assert (status, "Choose one of your repositories." in text) == (422, True)
    theirs = {**_ROWS, "do": "save", "repository_id": str(repository)}
    assert (await colleague.post("/rules/new", theirs))[0] == 404
    tried = {**_ROWS, "do": "try", "sample_repository": str(repository)}
    assert (await colleague.post("/rules/new", tried))[0] == 404
    with server.database.session() as session:
        assert session.scalars(select(Rule)).all() == []


async def test_a_viewer_can_read_rules_and_cannot_add_them(viewer: Browser) -> None:
    assert (await viewer.get("/rules"))[0] == 200
    assert (await viewer.get("/rules/examples"))[0] == 200
    assert (await viewer.get("/rules/new"))[0] == 403


async def test_removing_a_rule_keeps_its_file(server: Server, owner: Browser, repository: int) -> None:
    await _saved(server, owner, repository)
    assert (await owner.post("/rules/1/remove"))[0] == 303
    assert _file(server).is_file()
    assert (await owner.get("/rules/1"))[0] == 404


async def test_changes_to_a_rule_that_was_removed_meanwhile_can_be_saved_as_a_new_one(
    server: Server, owner: Browser, repository: int
) -> None:
    await _saved(server, owner, repository)
    _, form = await owner.get("/rules/1/edit?view=rows")
    await owner.post("/rules/1/remove")
    tree: Any = html.fromstring(form)
    (filled,) = [one for one in tree.forms if "based_on" in one.fields]
    sent = {**dict(filled.form_values()), "regexp-0": "an hour of work"}
    status, page, _ = await owner.post("/rules/1/edit", {**sent, "do": "save"})

    assert status == 404
    assert "It was removed in the meantime." in page
    tree = html.fromstring(page)
    (again,) = [one for one in tree.forms if one.action == "/rules/new"]
    resent = {**dict(again.form_values()), "name": "Culture again", "do": "save"}
    status, page, _ = await owner.post("/rules/new", {**resent, "repository_id": str(repository)})
    assert status == 303, page
    assert "an hour of work" in (await owner.get("/rules/2"))[1]


async def test_a_rule_links_to_forms_of_schedules_with_the_rule_selected(
    server: Server, owner: Browser, colleague: Browser, repository: int
) -> None:
    await owner.post("/rules/new", {**_ROWS, "repository_id": str(repository)})
    with server.database.session() as session:
        number = add_schedule(session, repository_id=repository, frequency="daily at 02:30").id
        rule, path = session.execute(select(Rule.rule_id, Rule.path)).one()
        session.commit()
    _, page = await owner.get(f"/rules/{rule}")
    for link in (f"/schedules/{number}/edit", f"/schedules/new?repository={repository}"):
        sign = "&" if "?" in link else "?"
        target = f"{link}{sign}rule={rule}"
        assert f'href="{target.replace("&", "&amp;")}"' in page
        _, form = await owner.get(target)
        root: Any = html.fromstring(form)
        assert root.xpath("//select[@name='filter_file_path']/option[@selected]/@value") == [path]
    assert (await colleague.get(f"/schedules/new?repository={repository}&rule={rule}"))[0] == 404


async def test_a_rule_is_proposed_by_example_and_opened_in_the_editor(
    owner: Browser, colleague: Browser, repository: int
) -> None:
    _, page = await owner.get(f"/rules/by-example?repository={repository}")
    examples = re.findall(r'name="record-(\d+)" value="keep"', page)
    bodies = page.split("<tr>")[2:]
    kept = next(number for number, body in zip(examples, bodies, strict=True) if "oai:x:1" in body)
    dropped = next(number for number in examples if number != kept)
    form = {"repository": str(repository), f"record-{kept}": "keep", f"record-{dropped}": "drop"}

    status, page, _ = await owner.post("/rules/by-example", form)

    assert status == 200
    assert "keeps 1 of 2 stored records" in page
    root: Any = html.fromstring(page)
    values = {one.get("name"): one.get("value") for one in root.xpath("//form[@class='proposal'][1]//input")}
    assert values["kind"] == "filter"
    status, editor, _ = await owner.post("/rules/new", values)
    assert status == 200
    root = html.fromstring(editor)
    assert root.xpath("//select[@name='field-0']/option[@selected]/@value") == [values["xpath-0"]]

    assert (await owner.post("/rules/by-example", {**form, f"record-{dropped}": "keep"}))[0] == 422
    assert (await colleague.get(f"/rules/by-example?repository={repository}"))[0] == 404
    assert (await colleague.post("/rules/by-example", form))[0] == 404


async def test_choosing_the_kind_of_rule_keeps_what_was_entered(owner: Browser, repository: int) -> None:
    entered = {
        "kind": "filter",
        "view": "conditions",
        "name": "Subjects",
        "note": "first",
        "field-0": "//dc:subject",
        "operator-0": "contains",
        "value-0": "history",
        "sample_repository": str(repository),
    }
    _, page, _ = await owner.post("/rules/new", {**entered, "do": "normalise"})
    other = _fields_of(page)
    added = {"xpath-0": "//dc:subject", "regexp-0": "^a", "name-0": "dc:subject", "values-0": "B"}
    _, page, _ = await owner.post("/rules/new", {**other, **added, "do": "filter"})
    again = _fields_of(page)
    _, page, _ = await owner.post("/rules/new", {**again, "do": "normalise"})
    back = _fields_of(page)

    assert (other["kind"], other["view"]) == ("normalise", "rows")
    assert (again["kind"], again["view"]) == ("filter", "conditions")
    for fields in (other, again, back):
        assert {name: fields[name] for name in entered if name not in {"kind", "view"}} == {
            name: value for name, value in entered.items() if name not in {"kind", "view"}
        }
    assert back.items() >= added.items()


def _fields_of(page: str) -> dict[str, str]:
    tree: Any = html.fromstring(page)
    (form,) = [one for one in tree.forms if one.action == "/rules/new"]
    return {name: value.strip() for name, value in form.form_values()}


async def test_entries_of_the_other_kind_are_not_saved(owner: Browser, repository: int) -> None:
    hidden = {"name-5": "dc:subject", "values-5": "B", "field-5": "//dc:type", "value-5": "x"}
    form = {**_ROWS, **hidden, "repository_id": str(repository), "do": "save"}

    status, page, _ = await owner.post("/rules/new", form)

    assert status == 303, page
    _, page = await owner.get("/rules/1/edit?view=rows")
    assert "dc:type" not in page


async def test_a_path_that_begins_at_the_record_is_explained_when_it_finds_nothing(
    owner: Browser, repository: int
) -> None:
    form = {
        "kind": "normalise",
        "view": "rows",
        "do": "try",
        "prefix-0": "dc",
        "uri-0": "http://purl.org/dc/elements/1.1/",
        "xpath-0": "dc:title",
        "regexp-0": ".",
        "name-0": "dc:title",
        "values-0": "B",
        "sample_repository": str(repository),
    }
    _, near, _ = await owner.post("/rules/new", form)
    _, found, _ = await owner.post("/rules/new", {**form, "xpath-0": "//dc:title"})

    assert "A path without // begins at the record. Try //dc:title." in near
    assert "Try //" not in found
