import html
import re
import uuid
from datetime import timedelta
from typing import Any

from lxml import etree
from lxml.etree import HTML
from sqlalchemy import func, select, text

from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Record, Repository
from harvester.vocabulary import RunStatus
from manager.models import Job, RecurringJob, RecurringState
from oai.audit import AuditEntry
from oai.errors import required
from tests.web.conftest import Browser, Server
from tests.web.repository import repository
from tests.web.rows import BEGAN, a_repository, a_run, a_schedule, a_store_audit
from web.auth.organisations import find_organisation, give_repository


async def test_base_url_and_folder_are_enough_to_add_a_repository(
    server: Server, administrator: Browser
) -> None:
    async with repository() as address:
        form = {"base_url": f"  {address}/oai ", "base_dir": "libraries/telc"}
        status, answer, target = await administrator.post("/repositories/new", form)

    assert status == 303, answer
    assert target == "/repositories/1?done=repository-added"
    _, page = await administrator.get(target)
    for fact in (
        "Library of Telč",
        "librarian@telc.example",
        "kept permanently",
        "marc21",
        "Books &amp; more",
        "<dt>Granularity</dt><dd>second</dd>",
    ):
        assert fact in page
    with server.database.session() as session:
        row = session.scalars(select(Repository)).one()
        assert (row.base_dir, row.granularity) == ("libraries/telc", "YYYY-MM-DDThh:mm:ssZ")
        assert session.scalars(select(func.count()).select_from(OaiSet)).one() == 3


_FAILURES = (
    ("/home", "The server answered, but not with OAI-PMH."),
    ("/nowhere", "The server has no page at this address (HTTP 404)."),
    ("/closed", "The server denies access (HTTP 403)."),
)


async def test_a_failure_is_named_by_its_kind_and_the_form_keeps_its_values(
    server: Server, administrator: Browser
) -> None:
    async with repository() as address:
        for path, title in _FAILURES:
            form = {"base_url": address + path, "base_dir": "telc"}
            status, page, _ = await administrator.post("/repositories/new", form)

            assert status == 422, path
            assert title in page
            assert f'value="{address}{path}"' in page
            assert 'value="telc"' in page, path
    with server.database.session() as session:
        assert session.scalars(select(Repository)).all() == []


async def test_a_refused_connection_is_reported_as_such(administrator: Browser) -> None:
    async with repository() as address:
        gone = address

    status, page, _ = await administrator.post("/repositories/new", {"base_url": gone, "base_dir": "telc"})

    assert status == 422
    assert "The server does not accept connections on this port." in page


_OUTSIDE = ("", "../elsewhere", "/etc")


async def test_a_folder_outside_the_store_is_refused_before_any_request(administrator: Browser) -> None:
    for folder in _OUTSIDE:
        form = {"base_url": "http://127.0.0.1:9/oai", "base_dir": folder}

        status, page, _ = await administrator.post("/repositories/new", form)

        assert status == 422, folder
        assert 'id="base_dir-fault"' in page, folder
        assert 'id="base_url-fault"' not in page, folder


async def test_a_folder_in_use_is_reported_at_its_field(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    async with repository() as address:
        form = {"base_url": f"{address}/oai", "base_dir": "telc"}
        status, page, _ = await administrator.post("/repositories/new", form)

    assert status == 422
    assert 'id="base_dir-fault"' in page


async def test_foreign_names_are_escaped(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session, name="<script>alert(1)</script>")
        session.commit()

    for path in ("/repositories", "/repositories/1", "/runs", "/schedules/new"):
        _, page = await administrator.get(path)
        assert "&lt;script&gt;alert" in page
        assert "<script>alert" not in page


async def test_a_repository_shows_its_schedules_and_runs(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_schedule(session, telc)
        a_run(session, telc, record_count=12345)
        session.commit()

    _, page = await viewer.get("/repositories/1")

    assert "every day at 02:30" in page
    assert "12,345" in page
    assert '<time datetime="2026-01-02T03:05:05Z" title="2 Jan 2026 03:05:05 UTC"' in page
    assert 'data-relative="2 Jan 2026 03:05">' in page


async def test_repository_names_are_shown_only_in_lists_about_several_repositories(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        a_schedule(session, telc)
        a_run(session, telc)
        a_store_audit(session, telc)
        session.execute(text("INSERT INTO oai_job (repository_id, status) VALUES (1, 0)"))
        session.commit()

    async def rows(path: str) -> list[str]:
        _, page = await viewer.get(path)
        tree: Any = etree.HTML(page)
        return [" ".join("".join(one.itertext()).split()) for one in tree.xpath("//tbody//th[@scope='row']")]

    assert await rows("/repositories/1") == ["Job 1 oai_dc", "marc21", "Run 1 oai_dc", "Audit 1"]
    assert await rows("/jobs/1") == ["Job 1 oai_dc"]
    assert await rows("/runs?repository=1") == ["Run 1 oai_dc"]
    assert await rows("/runs") == ["Library of Telč oai_dc"]
    assert await rows("/schedules") == ["Library of Telč marc21"]
    assert await rows("/store-audits") == ["Library of Telč"]


async def test_harvest_now_adds_a_one_off_schedule(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    _, _, target = await administrator.post("/repositories/1/harvest", {"metadata_prefix": "marc21"})

    assert target == "/jobs?done=harvest-asked"
    with server.database.session() as session:
        planned = session.scalars(select(RecurringJob)).one()
        assert (planned.metadata_prefix, planned.frequency) == ("marc21", None)


async def test_the_page_of_a_repository_shows_its_first_schedules_and_formats_and_counts(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        for number in range(1, 22):
            a_schedule(session, telc, set_spec=f"set-{number}")
        formats = [MetadataFormat(metadata_prefix=f"format-{number:03}") for number in range(101)]
        session.add_all(formats)
        session.flush()
        session.add_all([PrefixMapping(repository_id=1, prefix_id=one.prefix_id) for one in formats])
        session.commit()

    _, page = await viewer.get("/repositories/1")

    assert page.count('<tr id="schedule-') == 20
    assert "Schedules (21)" in re.sub("<[^>]+>", "", page)
    assert '<a href="/schedules?repository=1">All schedules of this repository</a>' in page
    assert page.count('<dt class="mono">format-') == 100
    assert "The first 100 formats are shown." in page


async def test_a_repository_is_removed_after_a_confirmation_page_that_names_it(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    _, page = await administrator.get("/repositories/1/remove")
    assert "<h1>Remove the repository Library of Telč?</h1>" in page
    _, _, target = await administrator.post("/repositories/1/remove")

    assert target == "/repositories?done=repository-removed"
    assert "No repositories yet" in (await administrator.get(target))[1]


async def test_a_repository_that_is_being_harvested_is_not_removed(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.execute(text("INSERT INTO oai_job (repository_id, status, process_id) VALUES (1, 1, 7)"))
        session.commit()

    status, page, _ = await administrator.post("/repositories/1/remove")

    assert status == 409
    assert "Stop the harvest under Current jobs first" in page
    assert (await administrator.get("/repositories/1"))[0] == 200


async def test_the_settings_of_a_repository_are_changed(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {"repository_name": "Telč", "base_url": "https://moved.example/oai", "deletion_policy": "mark"}

    _, page = await administrator.get("/repositories/1/settings")
    _, _, target = await administrator.post(
        "/repositories/1/settings",
        {**form, "brake_deletions": "5", "brake_updates": "", "do": "save-anyway"},
    )

    assert 'value="https://telc.example/oai"' in page
    assert '<option value="remove" selected' in page
    assert target == "/repositories/1?done=repository-moved"
    assert "the next harvest requests all records" in (await administrator.get(target))[1]
    with server.database.session() as session:
        row = session.get_one(Repository, 1)
        assert (row.repository_name, row.base_url) == ("Telč", "https://moved.example/oai")
        assert (row.deletion_policy, row.brake_deletions, row.brake_updates) == ("mark", 5.0, None)


_FAULTY = (
    ("base_url", "ftp://telc.example/"),
    ("base_url", ""),
    ("deletion_policy", "burn"),
    ("brake_deletions", "101"),
    ("brake_updates", "many"),
)


async def test_invalid_settings_are_reported_at_their_fields_and_not_saved(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {"repository_name": "Other", "base_url": "https://moved.example/oai", "deletion_policy": "mark"}
    for name, value in _FAULTY:
        status, page, _ = await administrator.post("/repositories/1/settings", {**form, name: value})

        assert status == 422, (name, value)
        assert f'id="{name}-fault"' in page, (name, value)
        assert 'value="Other"' in page, (name, value)
        with server.database.session() as session:
            assert session.get_one(Repository, 1).repository_name == "Library of Telč"


async def test_a_repository_is_refreshed_from_its_current_answers(
    server: Server, administrator: Browser
) -> None:
    async with repository() as address:
        with server.database.session() as session:
            a_repository(session, name="Old name").base_url = f"{address}/oai"
            session.commit()
        _, _, target = await administrator.post("/repositories/1/refresh")

    assert target == "/repositories/1?done=repository-asked"
    _, page = await administrator.get(target)
    assert "<h1>Library of Telč</h1>" in page
    assert "Books &amp; more" in page


async def test_the_audit_entry_of_a_refresh_omits_changes_made_by_others_meanwhile(
    server: Server, administrator: Browser
) -> None:
    def somebody_else() -> None:
        with server.database.session() as session:
            session.get_one(Repository, 1).brake_deletions = 9
            session.commit()

    async with repository(somebody_else) as address:
        with server.database.session() as session:
            a_repository(session, name="Old name").base_url = f"{address}/oai"
            session.commit()
        assert (await administrator.post("/repositories/1/refresh"))[0] == 303
    with server.database.session() as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.audit_id.desc())).first()
    assert entry is not None
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.action, entry.before["repository_name"]) == ("repository.refresh", "Old name")
    assert "brake_deletions" not in entry.before | entry.after


async def test_a_failed_refresh_keeps_the_facts_of_a_repository(
    server: Server, administrator: Browser
) -> None:
    async with repository() as address:
        with server.database.session() as session:
            a_repository(session, name="Old name").base_url = f"{address}/home"
            session.commit()
        status, page, _ = await administrator.post("/repositories/1/refresh")

    assert status == 400
    assert "<h1>Old name</h1>" in page
    assert "<strong>The server answered, but not with OAI-PMH.</strong>" in page
    assert "Look for the repository&#39;s OAI-PMH base URL" in page
    assert "/home?verb=Identify: " in page
    assert 'href="/repositories/1/settings"' in page
    assert "<h1>Old name</h1>" in (await administrator.get("/repositories/1"))[1]


async def test_a_viewer_cannot_refresh_or_change_a_repository(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    assert (await viewer.get("/repositories/1/settings"))[0] == 403
    for path in ("/repositories/1/settings", "/repositories/1/refresh"):
        assert (await viewer.post(path))[0] == 403
    assert "/repositories/1/settings" not in (await viewer.get("/repositories/1"))[1]


async def test_the_list_shows_the_last_runs_of_each_repository(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        telc, _knav = a_repository(session), a_repository(session, name="KNAV", folder="knav")
        for number in range(22):
            status = RunStatus.FAILED if number == 21 else RunStatus.COMPLETED
            a_run(session, telc, status=status, harvest_end_time=BEGAN + timedelta(days=number))
        session.commit()

    _, page = await administrator.get("/repositories")

    row = page[page.index('id="repository-1"') : page.index('id="repository-2"')]
    strip = row[row.index('<svg class="plot"') :]
    assert strip.count('class="cell ') == strip.count('tabindex="-1"') == 20
    assert strip.index("/runs/3") < strip.index("/runs/22")
    assert "failed" in row
    assert "never harvested" in page[page.index('id="repository-2"') :]


async def test_sorting_and_filters_of_the_list_are_kept_from_page_to_page(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        for at in range(101):
            a_repository(session, f"Same | name{chr(0xA0)}here", f"r{at}")
        a_run(session, a_repository(session, "Broken", "broken"), status=RunStatus.FAILED, record_count=41)
        session.commit()

    _, trouble = await administrator.get("/repositories?state=trouble&organisation=999&after=99999999999|7")
    _, broken = await administrator.get("/repositories?state=trouble")
    _, first = await administrator.get("/repositories?sort=-name")
    following = re.search(r'href="(/repositories\?[^"]*after=[^"]*)"', first)

    assert "No repositories match the filters." in trouble
    assert re.findall(r'<tr id="repository-(\d+)"', broken) == ["102"]
    assert ">41<" in broken
    assert 'aria-sort="descending"><a href="/repositories?sort=name"' in first
    assert following is not None
    _, second = await administrator.get(html.unescape(following[1]))
    assert re.findall(r'<tr id="repository-(\d+)"', second) == ["1", "102"]


async def test_selected_repositories_are_changed_one_by_one_with_an_audit_entry_each(
    server: Server, administrator: Browser, owner: Browser
) -> None:
    with server.database.session() as session:
        rows = [a_repository(session, f"Library {at}", f"r{at}") for at in range(12)]
        for row in rows[:-1]:
            a_schedule(session, row)
        session.commit()
    every = [str(at) for at in range(1, 13)]

    async def post(
        name: str, numbers: list[str], who: Browser = administrator, **more: str
    ) -> tuple[int, str]:
        form = {"repository": numbers, **more}
        status, page, target = await who.post(f"/repositories/selected/{name}?sort=name", form)
        return status, target or page

    status, target = await post("pause", ["1", "2"])
    assert (status, target.partition("&undo=")[0]) == (
        303,
        "/repositories?sort=name&done=repositories-paused",
    )
    refused, _ = await post("pause", ["1"], owner)
    asked, question = await post("run", every)
    with server.database.session() as session:
        assert session.scalars(select(func.count()).select_from(Job)).one() == 0
    done, result = await post("run", every, sure="yes")
    _, removal = await post("remove", ["3"])
    await post("remove", ["3"], sure="yes")

    assert refused == 404
    assert asked == done == 200
    assert all(f"<li>Library {at}</li>" in question for at in range(12))
    assert "9 repositories were changed." in result
    assert result.count("its schedules are paused") == 3
    assert "<li>Library 2</li>" in removal
    with server.database.session() as session:
        assert session.scalars(select(func.count()).select_from(Repository)).one() == 11
        entries = session.execute(
            select(AuditEntry.action, func.count())
            .where(AuditEntry.action.startswith("repository."), AuditEntry.status < 400)
            .group_by(AuditEntry.action)
        )
        assert {one[0]: one[1] for one in entries} == {
            "repository.pause": 2, "repository.run": 9, "repository.remove": 1,
        }  # fmt: skip


async def test_selected_repositories_are_changed_although_others_are_missing(
    server: Server, administrator: Browser, owner: Browser
) -> None:
    with server.database.session() as session:
        ours, strange = a_repository(session, "Ours", "ours"), a_repository(session, "Strange", "strange")
        for row in (ours, strange):
            a_schedule(session, row)
        organisation = required(find_organisation(session, "mzk"), "a standing one")
        give_repository(session, ours.repository_id, organisation.organisation_id)
        session.commit()
        numbers = [str(ours.repository_id), "99", str(strange.repository_id)]

    path = "/repositories/selected/pause"
    status, page, _ = await owner.post(path, {"repository": numbers})

    assert (status, (await administrator.post(path, {"repository": "99"}))[0]) == (200, 404)
    assert "1 repository was changed." in page
    for number in numbers[1:]:
        assert f"<li>Repository {number} does not exist; it may have been removed.</li>" in page
    assert "Strange" not in page
    with server.database.session() as session:
        paused = select(RecurringJob.repository_id).where(RecurringJob.state == RecurringState.PAUSED)
        assert [str(number) for number in session.scalars(paused)] == numbers[:1]


async def test_only_repositories_named_on_the_confirmation_page_are_removed(
    server: Server, owner: Browser
) -> None:
    with server.database.session() as session:
        rows = [a_repository(session, f"Library {at}", f"r{at}") for at in range(2)]
        numbers = [row.repository_id for row in rows]
        give_repository(session, numbers[0], 1)
        session.commit()
    path = "/repositories/selected/remove"
    _, question, _ = await owner.post(path, {"repository": [str(number) for number in numbers]})
    left_out = f"Repository {numbers[1]} does not exist; it may have been removed."
    assert (f"<p>{left_out}</p>" in question, "<li>Library 0</li>" in question) == (True, True)
    with server.database.session() as session:
        give_repository(session, numbers[1], 1)
        session.commit()

    form = {
        name: re.findall(f'name="{name}" value="([^"]*)"', question) for name in ("repository", "left_out")
    }
    status, result, _ = await owner.post(path, {**form, "sure": "yes"})

    assert (status, "1 repository was changed." in result, left_out in result) == (200, True, True)
    with server.database.session() as session:
        assert session.scalars(select(Repository.repository_id)).all() == numbers[1:]
    assert (await owner.post(path, {"repository": str(numbers[0])}))[0] == 404
    again = await owner.post(path, {"repository": str(numbers[0]), "sure": "yes"})
    assert again[::2] == (303, "/repositories?done=repositories-removed"), "the same click sent twice"


_CHOICE_PAGES = {
    "/alerts/rules/new": "repository",
    "/alerts/mutes/new": "repository",
    "/archive/aggregate": "repository_id",
    "/imports/sets/new": "sample_repository",
    "/rules/by-example": "repository",
    "/rules/new": "repository_id",
    "/runs": "repository",
    "/schedules": "repository",
    "/schedules/new": "repository",
    "/store-audits": "repository_id",
}
"""Pages on which a repository is chosen, and the name of the field."""


async def test_choices_of_repositories_are_sorted_by_the_readers_alphabet(
    server: Server, administrator: Browser
) -> None:
    names = ["Šumava", "Sušice", "Cvikov", "Choceň", "hora", "Čáslav", "Česká knihovna", "Ivančice"]
    names += ["„Národná“", "Märk", "Mazal", "Nitra", "Łódź", "Kôra", "Kozel", "Liptov"]
    with server.database.session() as session:
        for at, name in enumerate(names):
            a_repository(session, name, f"r{at}")
        session.commit()

    async def offered(language: str) -> list[str]:
        path, headers = f"{server.base_url}/schedules/new", {"Accept-Language": language}
        async with administrator.http.get(path, headers=headers) as answer:
            page = await answer.text()
        return [str(one.text) for one in HTML(page).iterfind(".//select[@name='repository']/option")]

    assert await offered("cs") == [
        "Cvikov", "Čáslav", "Česká knihovna", "hora", "Choceň", "Ivančice", "Kôra", "Kozel", "Liptov", "Łódź",
        "Märk", "Mazal", "„Národná“", "Nitra", "Sušice", "Šumava",
    ]  # fmt: skip
    assert await offered("sk") == [
        "Cvikov", "Čáslav", "Česká knihovna", "hora", "Choceň", "Ivančice", "Kozel", "Kôra", "Liptov", "Łódź",
        "Mazal", "Märk", "„Národná“", "Nitra", "Sušice", "Šumava",
    ]  # fmt: skip
    assert await offered("en") == [
        "Čáslav", "Česká knihovna", "Choceň", "Cvikov", "hora", "Ivančice", "Kôra", "Kozel", "Liptov", "Łódź",
        "Märk", "Mazal", "„Národná“", "Nitra", "Šumava", "Sušice",
    ]  # fmt: skip


async def test_repositories_of_the_same_name_are_distinguished_in_every_choice(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        rows = [a_repository(session, name, f"r{at}") for at, name in enumerate(["Maps", *["DSpace"] * 2])]
        rows += [a_repository(session, "Eprints", f"e{at}") for at in range(2)]
        rows += [a_repository(session, "Kramerius", f"k{at}") for at in range(2)]
        rows[3].base_url, rows[4].base_url = "http://host.example:80/a/oai", "http://host.example:80/b/oai"
        rows[5].base_url = rows[6].base_url
        session.commit()
    expected = {
        "1": "Maps",
        "2": "DSpace (r1.example)",
        "3": "DSpace (r2.example)",
        "4": "Eprints (host.example:80/a/oai)",
        "5": "Eprints (host.example:80/b/oai)",
        "6": "Kramerius (k1.example/oai, 6)",
        "7": "Kramerius (k1.example/oai, 7)",
    }

    for path, name in _CHOICE_PAGES.items():
        _, page = await administrator.get(path)
        options = HTML(page).iterfind(f".//select[@name='{name}']/option")
        shown = {one.get("value", ""): str(one.text) for one in options}
        assert {number: shown.get(number) for number in expected} == expected, path


async def test_the_page_of_a_repository_shows_what_is_stored_beside_what_it_offered(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        for number in range(2):
            session.add(
                Record(
                    repository_id=1,
                    identifier=f"oai:telc.example:{number}",
                    identifier_key=uuid.UUID(int=number),
                    metadata_prefix="oai_dc",
                    datestamp="2026-01-01",
                    status="active" if number else "deleted",
                )
            )
        evidence = {"end": "empty token", "lists": 1, "complete_list_size": 1234}
        counts = {"record_count": 1230, "invalid_count": 4, "filtered_count": 5}
        a_run(session, telc, evidence=evidence, **counts)
        session.commit()

    _, text = await viewer.get("/repositories/1")

    page: Any = HTML(text)
    (row,) = page.xpath("//section[@id='counts']//tbody/tr")
    cells = [" ".join("".join(cell.itertext()).split()) for cell in row]
    assert cells[:4] == ["oai_dc", "1", "1", "1,234"]
    assert all(one in cells[4] for one in ("rejected: 4", "filtered out: 5"))
    assert "/runs/1/errors" in row.xpath(".//a/@href")
