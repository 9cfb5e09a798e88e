import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from manager.schedules.service import add_schedule
from oai.database import Database
from oai.errors import UsageError
from oai.owners import owner_of
from oai.settings import Settings
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule
from web.auth.organisations import (
    add_organisation,
    change_organisation,
    claim,
    give_repository,
    remove_organisation,
)
from web.auth.sessions import find_session, list_sessions, start_session
from web.auth.sign_in import make_link
from web.auth.users import add_user, change_role, disable_user, enable_user, find_user, find_users, list_users
from web.models import Role


def test_a_partner_needs_an_organisation(database: Database) -> None:
    with database.session() as session, pytest.raises(UsageError, match="must belong to an organisation"):
        add_user(session, "Olga", Role.PARTNER)


def test_the_last_administrator_cannot_be_disabled_or_change_role(database: Database) -> None:
    with database.session() as session:
        alena = add_user(session, "Alena", Role.ADMINISTRATOR)
        with pytest.raises(UsageError, match="last administrator"):
            disable_user(session, alena.user_id)
        with pytest.raises(UsageError, match="last administrator"):
            change_role(session, alena.user_id, Role.VIEWER)

        add_user(session, "Adam", Role.ADMINISTRATOR)
        change_role(session, alena.user_id, Role.VIEWER)

        assert alena.role == Role.VIEWER


def test_a_change_that_waits_for_another_one_holds_no_locks(database: Database) -> None:
    with database.session() as session:
        first, second = (add_user(session, name, Role.ADMINISTRATOR).user_id for name in ("Alena", "Adam"))
        session.commit()
    with ThreadPoolExecutor() as threads, database.session() as holding:
        lock = "SELECT FROM web_user WHERE user_id = :number FOR UPDATE"
        holding.execute(text(lock), {"number": first})
        waiting = threads.submit(_disabled, database, second)
        while not _somebody_waits(database):
            time.sleep(0.01)
        with database.session() as other:
            other.execute(text(f"{lock} NOWAIT"), {"number": second})
        disable_user(holding, first)
        holding.commit()
        with pytest.raises(UsageError, match="last administrator"):
            waiting.result()


def test_creating_the_administrator_twice_at_once_gives_two_links(
    database: Database, settings: Settings
) -> None:
    def link(session: Session) -> str:
        made = make_link(session, settings, "admin", "http://zatva.example", create_administrator=True)
        session.commit()
        return made

    with ThreadPoolExecutor() as threads, database.session() as first, database.session() as second:
        add_user(first, "admin", Role.ADMINISTRATOR)
        waiting = threads.submit(link, second)
        while not _somebody_waits(database):
            time.sleep(0.01)
        assert link(first) != waiting.result()
        assert [user.name for user in list_users(second)] == ["admin"]


def _disabled(database: Database, user_id: int) -> None:
    with database.session() as session:
        disable_user(session, user_id)
        session.commit()


def _somebody_waits(database: Database) -> bool:
    with database.session() as session:
        return bool(
            session.scalar(
                text(
                    "SELECT EXISTS (SELECT FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock')"
                )
            )
        )


def test_disabling_a_user_ends_the_sessions(database: Database, settings: Settings) -> None:
    with database.session() as session:
        user = add_user(session, "Viktor")
        start_session(session, settings.web, user.user_id)
        session.flush()
        assert len(list_sessions(session, user.user_id)) == 1

        disable_user(session, user.user_id)

        assert list_sessions(session, user.user_id) == []
        assert list_users(session)[0].state == "disabled"


def test_schedules_of_an_organisation_have_its_short_name_as_owner(database: Database) -> None:
    with database.session() as session:
        mzk = add_organisation(session, short_name="mzk", name="Moravian Library")
        repository = a_repository(session)
        before = a_schedule(session, repository)

        give_repository(session, repository.repository_id, mzk.organisation_id)
        after = add_schedule(session, repository_id=repository.repository_id)

        session.refresh(before)
        assert (before.owner, after.owner) == ("mzk", "mzk")
        change_organisation(session, mzk.organisation_id, short_name="moravia", name="")
        session.refresh(after)
        assert after.owner == "moravia"
        remove_organisation(session, mzk.organisation_id)
        session.refresh(after)
        assert after.owner is None
        assert owner_of(session, repository.repository_id) is None


def test_an_organisation_with_users_is_not_removed(database: Database) -> None:
    with database.session() as session:
        mzk = add_organisation(session, short_name="mzk")
        add_user(session, "Olga", Role.PARTNER, organisation_id=mzk.organisation_id)

        with pytest.raises(UsageError, match=r"has users \(1\)"):
            remove_organisation(session, mzk.organisation_id)


@pytest.mark.parametrize("short_name", ["", "a b", "-x", "x" * 51, "ž"])
def test_invalid_short_names_are_refused(database: Database, short_name: str) -> None:
    with database.session() as session, pytest.raises(UsageError, match="short name"):
        add_organisation(session, short_name=short_name)


@pytest.mark.parametrize(("folder", "free"), [("nk", False), ("nk/a/b", False), ("nk2", True), ("n_", True)])
def test_a_partners_folder_must_not_overlap_folders_of_others(
    server: Server,
    settings: Settings,
    folder: str,
    free: bool,  # noqa: FBT001 a case of the table
) -> None:
    with server.database.session() as session:
        a_repository(session, folder="nk/a")
        mine = a_repository(session, folder=folder)
        olga = find_user(session, "Olga")
        assert olga is not None
        who = find_session(session, start_session(session, settings.web, olga.user_id))
        assert who is not None
        if free:
            claim(session, who, mine.repository_id)
            assert owner_of(session, mine.repository_id) is not None
        else:
            with pytest.raises(UsageError, match="overlaps"):
                claim(session, who, mine.repository_id)


async def test_an_invited_partner_chooses_a_password_and_signs_in_with_it(
    administrator: Browser, stranger: Browser
) -> None:
    form = {"name": "Petra", "role": "partner", "organisation": "1"}
    status, page, _ = await administrator.post("/admin/users/new", form)
    assert status == 200
    link = page.partition("/sign-in?token=")[2].partition("<")[0].strip()
    path = f"/sign-in?token={link}"
    status, reloaded, _ = await administrator.post("/admin/users/new", form)
    assert (status, "already exists; choose another name, or send this user" in reloaded) == (422, True)

    _, asked = await stranger.get(path)
    assert "Choose the password" in asked
    token = await stranger.token(path)
    short = {"token": link, "password": "short", "again": "short"}
    assert (await stranger.post("/sign-in", short, token=token))[0] == 422
    password = "correct horse battery staple"
    status, _, target = await stranger.post(
        "/sign-in", {"token": link, "password": password, "again": password}, token=token
    )
    assert (status, target) == (303, "/")
    assert "Petra" in (await stranger.get("/account"))[1]
    await stranger.post("/sign-out")
    status, _, target = await stranger.post(
        "/sign-in",
        {"name": "Petra", "password": password, "next": "/jobs"},
        token=await stranger.token("/sign-in"),
    )
    assert (status, target) == (303, "/jobs")


async def test_a_newer_invitation_invalidates_an_earlier_one(
    administrator: Browser, stranger: Browser
) -> None:
    links = []
    await administrator.post("/admin/users/new", {"name": "Petra", "role": "viewer", "organisation": ""})
    users = (await administrator.get("/admin/users"))[1]
    number = users.partition(">Petra<")[0].rpartition("/admin/users/")[2].strip('"')
    for _ in range(2):
        _, page, _ = await administrator.post(f"/admin/users/{number}/invite")
        links.append("/sign-in?token=" + page.partition("/sign-in?token=")[2].partition("<")[0].strip())

    assert (await stranger.get(links[0]))[0] == 410
    assert (await stranger.get(links[1]))[0] == 200


async def test_an_administrator_changes_and_disables_a_user(
    server: Server, administrator: Browser, viewer: Browser
) -> None:
    with server.database.session() as session:
        user = find_user(session, "Viktor")
        assert user is not None
        number = user.user_id
    at = f"/admin/users/{number}"

    assert (await administrator.post(at, {"role": "partner", "organisation": ""}))[0] == 422
    assert (await administrator.post(at, {"role": "partner", "organisation": "1"}))[0] == 303
    assert "partner" in (await viewer.get("/account"))[1]
    assert (await administrator.get(f"{at}/disable"))[0] == 200
    assert (await administrator.post(f"{at}/disable"))[0] == 303
    assert (await viewer.get("/"))[0] == 303
    assert (await administrator.post(f"{at}/link"))[0] == 409
    assert (await administrator.post(f"{at}/enable"))[0] == 303
    assert "/sign-in?token=" in (await administrator.post(f"{at}/link"))[1]


def _kept(page: str) -> dict[str, str]:
    return dict(re.findall(r'type="hidden" name="(based_on)" value="(\w+)"', page))


async def test_an_administrator_adds_changes_and_removes_organisations(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        number = a_repository(session, name="Library of Telč").repository_id
        session.commit()
    new = {"name": "Slovak National Library", "short_name": "snk"}

    assert (await administrator.post("/admin/organisations/new", new))[0] == 303
    assert (await administrator.post("/admin/organisations/new", new))[0] == 422
    at = "/admin/organisations/3"
    offered = f'name="repository" value="{number}"'
    assert offered in (await administrator.get(f"{at}?find=TEL"))[1]
    assert offered not in (await administrator.get(f"{at}?find=other"))[1]
    assert (await administrator.post(f"{at}/repositories", {"repository": str(number)}))[0] == 303
    assert f'id="repository-{number}"' in (await administrator.get(at))[1]
    others = (await administrator.get("/admin/organisations/1"))[1].partition('id="assign"')[2]
    assert "Slovak National Library" in others
    assert (await administrator.post(f"{at}/repositories", {"repository": "99"}))[0] == 404
    assert (await administrator.post(f"{at}/repositories"))[0] == 422
    given = {"repository": str(number), "back": "yes"}
    status, question, _ = await administrator.post(f"{at}/repositories", given)
    assert (status, "Notification rules about these repositories are removed" in question) == (
        200,
        True,
    )
    # Only the repositories named on the confirmation page are confirmed.
    status, question, _ = await administrator.post(f"{at}/repositories", {**given, "sure": "99:3"})
    assert (status, "The owner was changed in the meantime" in question) == (409, True)
    assert "(Slovak National Library)</li>" in question
    assert f'id="repository-{number}"' in (await administrator.get(at))[1]
    assert (await administrator.post(f"{at}/repositories", {**given, "sure": f"{number}:3"}))[0] == 303
    assert f'id="repository-{number}"' not in (await administrator.get(at))[1]
    renamed = {"name": "", "short_name": "snk2"}
    assert (await administrator.post("/admin/organisations/3", renamed))[0] == 303
    assert (await administrator.post("/admin/organisations/1/remove"))[0] == 409
    kept = _kept((await administrator.get("/admin/organisations/3/remove"))[1])
    assert (await administrator.post(f"{at}/repositories", {"repository": str(number)}))[0] == 303
    status, question, _ = await administrator.post("/admin/organisations/3/remove", kept)
    assert (status, "and nothing was removed" in question, "<li>Library of Telč</li>" in question) == (
        409,
        True,
        True,
    )
    for _click in ("once", "twice"):
        assert (await administrator.post("/admin/organisations/3/remove", _kept(question)))[0] == 303
    assert (await administrator.get("/admin/organisations/3"))[0] == 404
    for page in ("/admin", "/admin/workers", "/admin/tokens", "/admin/users/new", "/admin/organisations"):
        assert (await administrator.get(page))[0] == 200, page


def test_users_are_found_by_name_role_and_state_page_by_page(database: Database) -> None:
    with database.session() as session:
        mzk = add_organisation(session, short_name="mzk")
        names = ["Žofie", "Adam", "čeněk", "Dana", "50%"]
        for name in names:
            add_user(session, name, Role.PARTNER, organisation_id=mzk.organisation_id)
        gone = add_user(session, "Viktor")
        disable_user(session, gone.user_id)

        walked, last = [], ""
        while page := find_users(session, limit=2, after=last):
            walked += [view.name for view in page]
            last = page[-1].name

        assert walked == ["50%", "Adam", "čeněk", "Dana", "Viktor", "Žofie"]
        assert walked == [view.name for view in list_users(session)]
        assert [view.name for view in find_users(session, limit=9, words="CENEK")] == ["čeněk"]
        assert [view.name for view in find_users(session, limit=9, words="0%")] == ["50%"]
        assert len(find_users(session, limit=9, words="MZK")) == len(names)
        assert [view.name for view in find_users(session, limit=9, role="viewer")] == ["Viktor"]
        assert [view.name for view in find_users(session, limit=9, state="disabled")] == ["Viktor"]
        assert find_users(session, limit=9, state="invited") == []
        enable_user(session, gone.user_id)
        assert len(find_users(session, limit=9, state="active")) == len(names) + 1


async def test_the_page_of_users_is_filtered_paged_and_exported(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        for number in range(55):
            add_user(session, f"Zdena {number:02}")
        session.commit()

    _, first = await administrator.get("/admin/users?words=zdena&role=viewer")
    _, second = await administrator.get("/admin/users?words=zdena&role=viewer&after=Zdena+49")
    _, table = await administrator.get("/admin/users.csv?words=zdena+5")

    assert "Zdena 49" in first
    assert "Zdena 50" not in first
    assert "/admin/users?words=zdena&amp;role=viewer&amp;after=Zdena%2049" in first
    assert "Zdena 54" in second
    assert "Olga" not in second
    assert len(table.splitlines()) == 6


async def test_errors_about_the_last_administrator_link_to_other_users(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        alena = find_user(session, "Alena")
        assert alena is not None
        at = f"/admin/users/{alena.user_id}"

    status, disabling, _ = await administrator.post(f"{at}/disable")
    wrong, changing, _ = await administrator.post(at, {"role": "viewer", "organisation": ""})

    assert (status, wrong) == (409, 422)
    for page in (disabling, changing):
        assert 'href="/admin/users?state=active"' in page
