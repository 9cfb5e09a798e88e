"""The set in the form of a schedule is one that the repository lists, unless it is saved anyway."""

import pytest
from sqlalchemy import select

from harvester.harvest.preparation import missing_set_warning
from harvester.harvest.run_warnings import columns_of
from harvester.models import OaiSet, Repository
from manager.models import RecurringJob
from oai.errors import required
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule

_NEW = "/schedules/new?repository=1"
_ANYWAY = '<button name="do" value="save-anyway">Save anyway</button>'
_SETS = {"books": "Knihy", "maps:old": "Maps", "a": "Articles", "b": "Articles"}


@pytest.fixture
def listed(server: Server) -> Server:
    """A repository with a stored list of sets."""
    with server.database.session() as session:
        a_repository(session)
        session.add_all(OaiSet(repository_id=1, set_spec=spec, set_name=name) for spec, name in _SETS.items())
        session.commit()
    return server


async def _save(who: Browser, set_spec: str, page: str = _NEW, **more: str) -> tuple[int, str, str | None]:
    form = {"metadata_prefix": "oai_dc", "frequency": "daily at 02:30", "validation": "2", "do": "save"}
    return await who.post(page, {**form, "set_spec": set_spec, **more})


def _stored(server: Server) -> str | None:
    with server.database.session() as session:
        return session.scalars(select(RecurringJob.set_spec)).one_or_none()


async def test_the_name_of_a_set_is_stored_as_its_short_name_and_the_notice_says_so(
    listed: Server, administrator: Browser
) -> None:
    _, preview, _ = await _save(administrator, "Knihy", do="show-plan")
    status, page, target = await _save(administrator, "Knihy")

    assert (status, target) == (303, "/schedules?done=schedule-added-by-name"), page
    assert "the set books in the format oai_dc" in preview
    assert _stored(listed) == "books"
    assert "The set was entered by its name" in (await administrator.get(required(target, "saved")))[1]

    _, _, target = await _save(administrator, "Maps", "/schedules/1/edit")
    assert target == "/schedules?done=schedule-changed-by-name"
    assert "The set was entered by its name" in (await administrator.get(required(target, "saved")))[1]
    assert _stored(listed) == "maps:old"


@pytest.mark.parametrize("set_spec", ["books", "maps", "maps:old", ""])
async def test_a_listed_set_one_above_it_and_the_whole_repository_are_stored_at_once(
    listed: Server, administrator: Browser, set_spec: str
) -> None:
    status, page, target = await _save(administrator, set_spec)

    assert (status, target) == (303, "/schedules?done=schedule-added"), page
    assert _stored(listed) == (set_spec or None)


@pytest.mark.parametrize(
    ("set_spec", "why"),
    [
        (
            "knihy",
            "The repository lists no set knihy. Choose a set from the list, by its short name such as a",
        ),
        ("map", "The repository lists no set map."),
        ("Articles", "Several sets have the name Articles. Enter the short name of one of them: a, b."),
    ],
    ids=["no name", "beginning of a set", "name of two sets"],
)
async def test_a_set_that_is_not_listed_is_saved_only_on_request(
    listed: Server, administrator: Browser, set_spec: str, why: str
) -> None:
    for button in ("save", "show-plan"):
        status, page, _ = await _save(administrator, set_spec, do=button)
        assert (status, "The schedule is not saved yet." in page, why in page, _ANYWAY in page) == (
            422,
            True,
            True,
            True,
        )
    assert _stored(listed) is None

    _, _, target = await _save(administrator, set_spec, do="save-anyway")

    assert target == "/schedules?done=schedule-added"
    assert _stored(listed) == set_spec


async def test_a_change_of_a_schedule_keeps_the_unlisted_set_that_it_has(
    listed: Server, administrator: Browser
) -> None:
    await _save(administrator, "hidden", do="save-anyway")

    status, page, _ = await _save(administrator, "hidden", "/schedules/1/edit", frequency="every 6 hours")
    assert status == 303, page
    status, _, _ = await _save(administrator, "other", "/schedules/1/edit")
    assert (status, _stored(listed)) == (422, "hidden")


async def test_without_a_stored_list_of_sets_any_set_is_saved(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    assert (await _save(administrator, "Knihy"))[0] == 303


async def test_the_page_of_an_empty_run_leads_with_the_set_that_is_not_listed(
    listed: Server, administrator: Browser
) -> None:
    with listed.database.session() as session:
        repository = session.get_one(Repository, 1)
        schedule = a_schedule(session, repository, metadata_prefix="oai_dc", set_spec="Knihy")
        warning = missing_set_warning(session, repository, "Knihy")
        columns = columns_of([required(warning, "the list has no such set")])
        a_run(session, repository, recurring_id=schedule.id, set_spec="Knihy", **columns)
        session.commit()

    _, page = await administrator.get("/runs/1")

    said = "list of sets does not contain Knihy; this is probably why the answer has no records."
    assert page.index(said) < page.index("All requested records were harvested.")
    assert "Check the set in the schedule." in page
    assert 'href="/schedules/1/edit"' in page
    await administrator.post("/account/language", {"language": "cs"})
    _, czech = await administrator.get("/runs/1")
    first, warned = czech.split("Seznam sad repozitáře neobsahuje Knihy; ")[:2]
    assert "Sklizeny všechny požadované záznamy." not in first
    assert "Sklizeny všechny požadované záznamy." in warned
