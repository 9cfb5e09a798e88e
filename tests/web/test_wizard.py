from typing import Any

import pytest
from lxml import html
from playwright.async_api import Page as Tab
from playwright.async_api import expect
from sqlalchemy import select

from harvester.models import Repository
from harvester.probing.diagnose import diagnose
from harvester.reading.errors import TransportError
from harvester.rule_lab.models import Rule
from manager.models import Job, RecurringJob
from oai.audit import Filter, list_entries
from oai.database import Database
from oai.errors import required
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, Item, many, serve
from tests.web.conftest import Browser, Server, enter
from tests.web.repository import repository
from tests.web.rows import a_repository, a_schedule
from web.app import create_app
from web.repositories.diagnostics import DIAGNOSTICS
from web.repositories.wizard import DRAFTS


@pytest.mark.parametrize(
    "address",
    [
        "htpp://a.example/oai",
        "http;//a.example/oai",
        "http:/a.example",
        "http://http://a.example",
        "a@b.example",
    ],
)
async def test_a_mistyped_address_is_refused(administrator: Browser, address: str) -> None:
    status, page, _ = await administrator.post("/repositories/new", {"base_url": address, "do": "ask"})

    assert status == 422
    assert "Enter the complete address, such as https://library.example/oai" in page


async def test_the_repository_is_asked_once_for_all_steps(administrator: Browser) -> None:
    async with serve(FakeRepository(items=many(3), sets=["maps"])) as served:
        form = {"base_url": served.url}
        await administrator.post("/repositories/new", {**form, "do": "ask"})
        asked = len(served.asked)
        for step in ("sets", "plan", "show-plan", "what"):
            status, _, _ = await administrator.post("/repositories/new", {**form, "step": "what", "do": step})
            assert status == 200

        assert len(served.asked) == asked


@pytest.mark.browser
async def test_long_names_and_namespaces_of_formats_fit_the_phone(server: Server, czech: Tab) -> None:
    namespace = b"http://www.ndltd.org/standards/metadata/" + b"etdms" * 12 + b"/1.0/"

    def answer(_arguments: dict[str, str], body: bytes) -> bytes:
        body = body.replace(b"<repositoryName>", b"<repositoryName>" + b"W" * 255)
        return body.replace(b"http://www.openarchives.org/OAI/2.0/oai_dc/<", namespace + b"<")

    async with serve(FakeRepository(items=many(3), fault=answer)) as served:
        await enter(czech, server, path="/repositories/new")
        await czech.locator("[name=base_url]").first.fill(served.url)
        await czech.locator("[name=base_url]").first.press("Enter")
        await expect(czech.get_by_text(namespace.decode())).to_be_visible()
        wide, shown = await czech.evaluate("[document.documentElement.scrollWidth, innerWidth]")

    assert wide <= shown


async def test_thousands_of_sets_are_searched(administrator: Browser) -> None:
    sets = [f"s{number}" for number in range(3000)]
    async with serve(FakeRepository(items=many(3), sets=sets, page_size=1000)) as served:
        form = {"base_url": served.url, "step": "what", "do": "sets", "set_words": "s2999"}
        _, page, _ = await administrator.post("/repositories/new", form)

    assert 'value="s2999"' in page
    assert 'value="s2998"' not in page


async def test_a_chosen_set_stays_selected_although_the_search_does_not_match_it(
    administrator: Browser,
) -> None:
    async with serve(FakeRepository(items=many(3), sets=["maps", "books"])) as served:
        form = {
            "base_url": served.url,
            "step": "what",
            "do": "sets",
            "set_words": "books",
            "set_spec": "maps",
        }
        _, page, _ = await administrator.post("/repositories/new", form)

    assert 'name="set_spec" value="maps" checked' in page


async def test_several_sets_are_counted_and_get_a_schedule_each(
    server: Server, administrator: Browser
) -> None:
    items = [
        Item(identifier=f"oai:x:{number}", sets=("maps",) if number % 3 else ("books",))
        for number in range(9)
    ]
    async with serve(FakeRepository(items=items, sets=["maps", "books", "empty"])) as served:
        step = {
            "base_url": served.url, "step": "what", "metadata_prefix": "oai_dc", "set_spec": ["maps", "books"]
        }  # fmt: skip
        _, page, _ = await administrator.post("/repositories/new", {**step, "do": "count"})
        assert "6 records" in page
        assert "3 records" in page
        assert page.count("checked") == 3, "the format and both sets"
        _, page, _ = await administrator.post("/repositories/new", {**step, "do": "plan"})
        assert "The same for 1 more set: books." in page
        form = {
            "base_url": served.url, "base_dir": "x", "step": "plan", "do": "save-and-run", "set_spec": "maps",
            "more_sets": "books", "metadata_prefix": "oai_dc", "frequency": "daily at 02:30",
        }  # fmt: skip
        status, answer, target = await administrator.post("/repositories/new", form)
    assert (status, target) == (303, "/jobs?done=harvest-asked"), answer
    with server.database.session() as session:
        assert set(session.scalars(select(RecurringJob.set_spec))) == {"maps", "books"}
        assert len(session.scalars(select(Job.job_id)).all()) == 2


async def test_changing_the_address_discards_entries_about_the_first_one(
    administrator: Browser,
) -> None:
    first, later = FakeRepository(items=many(3), sets=["maps"]), FakeRepository(items=many(3))
    async with serve(first) as one, serve(later) as other:
        chosen = {
            "base_url": one.url, "step": "plan", "repository_name": "First", "base_dir": "first",
            "metadata_prefix": "marc21", "set_spec": "maps", "frequency": "daily at 02:30",
        }  # fmt: skip
        page = (await administrator.post("/repositories/new", {**chosen, "do": "back-to-address"}))[1]
        carried = _fields_with(page, "described")
        same = (await administrator.post("/repositories/new", {**carried, "do": "plan"}))[1]
        moved = {**carried, "base_url": other.url}
        page = (await administrator.post("/repositories/new", {**moved, "do": "plan"}))[1]

    kept = {"repository_name": "First", "base_dir": "first", "set_spec": "maps"}
    assert kept.items() <= _fields_with(same, "base_dir").items()
    shown = _fields_with(page, "base_dir")
    assert shown["repository_name"] not in {"", "First"}
    assert (shown["base_dir"], shown.get("set_spec", "")) == ("127.0.0.1", "")
    assert shown["metadata_prefix"] == "oai_dc"
    assert shown["time_zone"] == "UTC"


def _fields_with(page: str, name: str) -> dict[str, str]:
    """The fields of the form that has the named one."""
    tree: Any = html.fromstring(page)
    (form,) = [form for form in tree.forms if name in form.fields]
    return {name: str(value) for name, value in form.form_values() if name != "csrf_token"}


async def test_too_many_sets_are_refused(administrator: Browser) -> None:
    sets = [f"s{number}" for number in range(51)]
    async with serve(FakeRepository(items=many(3), sets=sets)) as served:
        step = {"base_url": served.url, "step": "what", "do": "plan", "set_spec": sets}
        status, page, _ = await administrator.post("/repositories/new", step)
    assert (status, "At most 50 sets" in page) == (422, True)


async def test_save_and_run_adds_repository_schedule_and_job(server: Server, administrator: Browser) -> None:
    async with repository() as address:
        form = {
            "base_url": f"{address}/oai", "base_dir": "telc", "step": "plan", "do": "save-and-run",
            "repository_name": "Telč", "metadata_prefix": "marc21", "set_spec": "maps",
            "frequency": "daily at 02:30", "time_zone": "Europe/Prague", "incremental": "yes",
            "validation": "2", "method": "1", "slice": "month",
        }  # fmt: skip
        status, answer, target = await administrator.post("/repositories/new", form)

    assert (status, target) == (303, "/jobs/1?done=harvest-asked"), answer
    with server.database.session() as session:
        assert session.scalars(select(Repository.repository_name)).one() == "Telč"
        schedule = session.scalars(select(RecurringJob)).one()
        assert (schedule.set_spec, schedule.slice, schedule.method) == ("maps", "month", 1)
        assert session.scalars(select(Job.recurring_id)).one() == schedule.id


@pytest.mark.parametrize("frequency", ["daily at 02:30", ""], ids=["planned", "only by hand"])
async def test_the_audit_log_has_who_planned_and_ran_each_schedule_with_its_settings(
    server: Server, owner: Browser, frequency: str
) -> None:
    async with repository() as address:
        form = {
            "base_url": f"{address}/oai", "base_dir": "telc", "step": "plan", "do": "save-and-run",
            "repository_name": "Telč", "metadata_prefix": "marc21", "set_spec": "maps", "more_sets": "books",
            "frequency": frequency, "time_zone": "Europe/Prague", "incremental": "yes",
        }  # fmt: skip
        status, answer, _ = await owner.post("/repositories/new", form)

    assert status == 303, answer
    with server.database.session() as session:
        entries = list_entries(session, Filter(user="Olga"))[::-1]
        row = session.scalars(select(RecurringJob).order_by(RecurringJob.id).limit(1)).one()
    assert [(one.action, one.object_id, one.object_name) for one in entries] == [
        ("repository.add", "1", "Telč"),
        *((action, number, "Telč") for number in "12" for action in ("schedule.add", "schedule.run")),
    ]
    added = required(entries[1].after, "it is a new schedule")
    assert (added["set_spec"], added["frequency"], added["time_zone"]) == (
        row.set_spec,
        row.frequency,
        row.time_zone,
    )
    assert {(one.status, one.via, one.address) for one in entries} == {(303, "link", "127.0.0.1")}


async def test_a_second_repository_of_a_host_is_offered_a_different_folder(
    server: Server, owner: Browser
) -> None:
    folders = []
    async with serve(FakeRepository(items=many(3))) as one, serve(FakeRepository(items=many(3))) as other:
        for address in (one.url, other.url):
            step = {"base_url": address, "step": "what", "metadata_prefix": "oai_dc", "set_spec": ""}
            _, page, _ = await owner.post("/repositories/new", {**step, "do": "plan"})
            fields = _fields_with(page, "base_dir")
            folders.append(fields["base_dir"])
            status, page, target = await owner.post("/repositories/new", {**fields, "do": "save"})
            assert status == 303, page

    assert folders == ["127.0.0.1", "127.0.0.1-2"]
    _, page = await owner.get(target)
    assert "The repository was added, and its first harvest is planned." in page
    with server.database.session() as session:
        stored = session.scalars(select(Repository.base_dir).order_by(Repository.repository_id)).all()
    assert stored == ["organisation-1/127.0.0.1", "organisation-1/127.0.0.1-2"]


_PLANNED = {
    "base_dir": "x",
    "step": "plan",
    "do": "save-and-rule",
    "metadata_prefix": "oai_dc",
    "frequency": "daily at 02:30",
    "incremental": "yes",
    "validation": "0",
    "method": "0",
}


async def test_a_new_rule_is_offered_the_fields_of_the_repository_s_first_records(
    server: Server, administrator: Browser
) -> None:
    async with serve(FakeRepository(items=many(3), sets=["maps"])) as served:
        form = {**_PLANNED, "base_url": served.url, "set_spec": ""}
        status, page, target = await administrator.post("/repositories/new", form)
        _, editor = await administrator.get(target)
        asked = len(served.asked)
        _, again = await administrator.get(target)

    assert (status, target) == (
        303,
        (
            "/rules/new?repository=1&source=live&metadata_prefix=oai_dc&set_spec=&schedules=1"
            "&done=repository-planned"
        ),
    ), page
    assert '<option value="//dc:title">dc:title – ' in editor  # noqa: RUF001 en dash intended
    assert '<option value="//dc:title">dc:title – ' in again  # noqa: RUF001 en dash intended
    assert len(served.asked) == asked, "kept for the editor's next steps"
    with server.database.session() as session:
        assert session.scalars(select(RecurringJob.repository_id)).all() == [1]
        assert session.scalars(select(Job.job_id).where(Job.recurring_id.is_(None))).all() == []


_CONDITION = {"field-0": "//dc:title", "operator-0": "contains", "value-0": "title"}


async def test_a_new_rule_has_samples_of_the_chosen_set_and_is_used_by_all_schedules_of_the_wizard(
    server: Server, owner: Browser
) -> None:
    items = [
        Item(identifier=f"oai:x:{name}", sets=(name,), title=f"A title of {name}")
        for name in ("maps", "books", "films")
    ]
    async with serve(FakeRepository(items=items, sets=["maps", "books", "films"])) as served:
        form = {**_PLANNED, "base_url": served.url, "set_spec": "maps", "more_sets": "books"}
        _, _, target = await owner.post("/repositories/new", form)
        _, editor = await owner.get(target)
        assert ("A title of maps" in editor, "A title of books" in editor) == (True, False)
        assert 'href="/repositories/1">Cancel</a>' in editor
        _, other, _ = await owner.post(
            "/rules/new", {**_fields_with(editor, "schedules"), "do": "try", **_CONDITION}
        )
        assert "1 of 1 samples were tried." in other
        status, page, saved = await owner.post(
            "/rules/new", {**_fields_with(other, "schedules"), "name": "Maps", "do": "save"}
        )

    assert (status, saved) == (303, "/rules/1?done=rule-made-for-schedules"), page
    assert "all new schedules use it" in (await owner.get(saved))[1]
    with server.database.session() as session:
        path = session.scalars(select(Rule.path)).one()
        used = session.execute(select(RecurringJob.set_spec, RecurringJob.filter_file_path)).all()
        entries = list_entries(session, Filter(user="Olga"))
    file = str(server.settings.data.resolve() / path)
    assert [*map(tuple, used)] == [("maps", file), ("books", file)]
    edits = [one for one in entries if one.action == "schedule.edit"]
    assert {one.object_id for one in edits} == {"1", "2"}
    for one in edits:
        assert one.before is not None
        assert one.after is not None
        assert (one.before["filter_file_path"], one.after["filter_file_path"]) == (None, file)


async def test_the_other_kind_of_rules_is_opened_for_the_same_schedules(administrator: Browser) -> None:
    async with serve(FakeRepository(items=many(3))) as served:
        form = {**_PLANNED, "base_url": served.url, "set_spec": ""}
        _, _, target = await administrator.post("/repositories/new", form)
        _, editor = await administrator.get(target)
        sent = {**_fields_with(editor, "schedules"), "do": "normalise"}
        _, other, _ = await administrator.post("/rules/new", sent)

    fields = _fields_with(other, "schedules")
    assert (fields["kind"], fields["schedules"], fields["sample_metadata_prefix"]) == (
        "normalise",
        "1",
        "oai_dc",
    )


async def test_a_rule_is_used_only_by_the_new_schedules_that_have_none(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_schedule(session, a_repository(session))
        session.commit()
    async with serve(FakeRepository(items=many(3))) as served:
        _, _, target = await administrator.post("/repositories/new", {**_PLANNED, "base_url": served.url})
        _, editor = await administrator.get(target)
        numbers = " ".join(["1", "2", *map(str, range(10_000, 80_000))])
        sent = {**_fields_with(editor, "schedules"), **_CONDITION, "schedules": numbers, "do": "save"}
        status, page, saved = await administrator.post("/rules/new", {**sent, "name": "A"})
        _, _, again = await administrator.post("/rules/new", {**sent, "name": "B"})

    assert (status, saved) == (303, "/rules/1?done=rule-made-for-schedule"), page
    assert again == "/rules/2?done=rule-made"
    with server.database.session() as session:
        named = session.scalars(select(RecurringJob.filter_file_path).order_by(RecurringJob.id)).all()
        (path,) = session.scalars(select(Rule.path).where(Rule.rule_id == 1))
    assert named == [None, str(server.settings.data.resolve() / path)]


async def test_an_unavailable_live_list_is_reported_in_the_rule_editor(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    status, page = await administrator.get("/rules/new?repository=1&source=live")

    assert status == 422
    assert 'id="sample_repository-fault"' in page
    assert 'name="xpath-0"' in page


async def test_an_invalid_schedule_is_reported_and_nothing_is_saved(
    server: Server, administrator: Browser
) -> None:
    async with repository() as address:
        form = {"base_url": f"{address}/oai", "base_dir": "telc", "frequency": "sometimes", "do": "save"}
        status, page, _ = await administrator.post("/repositories/new", {**form, "step": "plan"})

    assert status == 422
    assert 'id="frequency-fault"' in page
    with server.database.session() as session:
        assert session.scalars(select(Repository)).all() == []


async def test_the_previewed_schedule_names_others_of_the_server_at_the_same_time(
    server: Server, administrator: Browser
) -> None:
    form = {"base_dir": "telc", "frequency": "daily at 02:30", "step": "plan", "do": "show-plan"}
    async with repository() as address:
        _, alone, _ = await administrator.post("/repositories/new", {**form, "base_url": f"{address}/oai"})
        with server.database.session() as session:
            other = a_repository(session, name="Library of Brno")
            other.base_url = f"{address}/brno"
            a_schedule(session, other, frequency="daily at 02:40", metadata_prefix="oai_dc")
            session.commit()
        _, page, _ = await administrator.post("/repositories/new", {**form, "base_url": f"{address}/oai"})

    assert "At the same time" not in alone
    assert '<a href="/schedules/1/edit">Library of Brno</a>' in page[page.index("At the same time") :]


async def test_the_schedule_is_described_in_words_with_three_due_times(administrator: Browser) -> None:
    async with repository() as address:
        form = {
            "base_url": f"{address}/oai",
            "base_dir": "telc",
            "frequency": "daily at 02:30",
            "step": "plan",
        }
        _, page, _ = await administrator.post("/repositories/new", {**form, "do": "show-plan"})

    plan = page[page.index('class="plan"') :]
    assert "the whole repository in the format oai_dc, all records each time" in plan
    assert plan.count("<time") == 3


async def test_a_repository_can_be_added_although_its_list_of_sets_is_broken(administrator: Browser) -> None:
    def answer(asked: dict[str, str], body: bytes) -> bytes:
        return body.replace(b"<setSpec>books", b"<setSpec>A & B") if asked["verb"] == "ListSets" else body

    async with serve(FakeRepository(items=many(3), sets=["maps", "books"], fault=answer)) as served:
        status, page, _ = await administrator.post("/repositories/new", {"base_url": served.url, "do": "ask"})

    assert status == 200
    assert "The list of sets cannot be read to its end." in page
    assert "not well-formed" in page
    assert "The repository has no sets" not in page


async def test_a_repository_of_oai_pmh_1_1_is_recognised(administrator: Browser) -> None:
    old = b'<Identify xmlns="http://www.openarchives.org/OAI/1.1/OAI_Identify"><repositoryName>Old</repositoryName></Identify>'
    repository = FakeRepository(fault=lambda asked, _body: old if asked["verb"] == "Identify" else None)
    async with serve(repository) as served:
        status, page, _ = await administrator.post("/repositories/new", {"base_url": served.url, "do": "ask"})

    assert status == 200
    assert "<h2>Old</h2>" in page
    assert "supports only OAI-PMH 1.1" in page


async def test_xml_that_is_not_oai_pmh_is_reported_as_such(administrator: Browser) -> None:
    async with serve(FakeRepository(fault=lambda _arguments, _body: b"<rss><channel/></rss>")) as served:
        status, page, _ = await administrator.post("/repositories/new", {"base_url": served.url, "do": "ask"})

    assert status == 422
    assert "XML, but not OAI-PMH" in page


async def test_friends_are_offered_as_addresses(administrator: Browser) -> None:
    friends = (
        b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><Identify><description><friends>'
        b"<baseURL>http://friend.example/oai</baseURL></friends></description></Identify></OAI-PMH>"
    )
    async with serve(FakeRepository(fault=lambda _arguments, _body: friends)) as served:
        _, page, _ = await administrator.post("/repositories/new", {"base_url": served.url, "do": "friends"})

    assert "/repositories/new?base_url=http%3A//friend.example/oai" in page


@pytest.mark.parametrize("path", ["/repositories/new?find=example"])
async def test_addresses_are_found_in_the_stored_copy_of_the_registry(
    server: Server, administrator: Browser, path: str
) -> None:
    (server.settings.data).mkdir(parents=True, exist_ok=True)
    (server.settings.data / "registry.xml").write_text(
        "<BaseURLs><baseURL>http://example.example/oai</baseURL></BaseURLs>"
    )

    _, page = await administrator.get(path)

    assert "http://example.example/oai" in page


async def test_no_step_sends_requests_to_private_networks(settings: Settings, database: Database) -> None:
    app = create_app(settings, database)

    async with serve(FakeRepository()) as served:
        with pytest.raises(TransportError, match="private_addresses"):
            await app[DRAFTS].ask(served.url)
        with pytest.raises(TransportError, match="private_addresses"):
            await diagnose(served.url, app[DIAGNOSTICS].settings)

    assert served.asked == []


async def test_an_address_without_scheme_and_path_is_completed(
    server: Server, administrator: Browser
) -> None:
    async with repository() as address:
        host = address.removeprefix("http://")
        _, page, _ = await administrator.post("/repositories/new", {"base_url": host, "do": "ask"})
        _, copied, _ = await administrator.post(
            "/repositories/new", {"base_url": f"{host}/oai?verb=Identify", "do": "ask"}
        )
        with server.database.session() as session:
            a_repository(session).base_url = f"{address}/oai/"
            session.commit()
        _, again, _ = await administrator.post("/repositories/new", {"base_url": host, "do": "ask"})

    for found in (page, copied):
        assert f'name="base_url" value="{address}/oai"' in found
        assert "already added" not in found
    assert "This repository was already added as Library of Telč." in again
    assert 'href="/schedules/new?repository=1"' in again


async def test_partners_do_not_learn_which_repositories_others_have_added(
    server: Server, owner: Browser
) -> None:
    async with repository() as address:
        with server.database.session() as session:
            a_repository(session).base_url = f"{address}/oai"
            session.commit()
        _, page, _ = await owner.post("/repositories/new", {"base_url": f"{address}/oai", "do": "ask"})

    assert "already added" not in page


@pytest.mark.browser
async def test_a_choice_in_the_users_menu_keeps_the_entries_of_the_form(server: Server, page: Tab) -> None:
    async with serve(FakeRepository(items=many(3), sets=["maps"])) as served:
        await enter(page, server, path="/repositories/new")
        await page.locator("[name=base_url]").first.fill(served.url)
        await _choose(page, "Čeština")
        await expect(page.locator("[name=base_url]").first).to_have_value(served.url)
        await page.get_by_role("button", name="Ověřit adresu").click()
        await page.locator("[name=set_spec][value=maps]").check()
        await _choose(page, "English")
        await expect(page.get_by_label("Set maps")).to_be_checked()
        await page.get_by_role("button", name="Continue").last.click()
        await page.locator("[name=repository_name]").fill("here")
        for choice in ("Without key", "Dark"):
            await _choose(page, choice)
            await expect(page.locator("[name=repository_name]")).to_have_value("here")
        await page.locator("[name=repository_name]").press("Enter")
        await expect(page.locator("html[data-theme=dark]")).to_be_visible()

    with server.database.session() as session:
        assert not session.scalars(select(Repository)).all()


async def _choose(page: Tab, name: str) -> None:
    """Choose a language, a theme or a key in the user's menu."""
    await page.locator(".user summary").click()
    await page.locator(".user").get_by_role("button", name=name, exact=True).click()
