"""Report cards: data and actions that are available to strangers with the link, and those that are not."""

import html
import re
import uuid
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update

from harvester.harvest.models import Quarantined
from harvester.models import Repository
from harvester.vocabulary import RunStatus
from manager.notices.digests import offer_digest
from manager.notices.models import Language, Notice, NoticeDigest
from oai.audit import AuditEntry
from oai.datestamps import utc_now
from oai.outgoing import MailSettings
from oai.owners import RepositoryOwner
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.web.conftest import Browser, Server
from tests.web.rows import BEGAN, a_repository, a_run, an_examination
from web.models import ReportCard
from web.repositories.diagnostics import DIAGNOSTICS
from web.repositories.report_card import medians_of_all
from web.site.keys import SETTINGS


@pytest.fixture
def repository(server: Server) -> None:
    """Telč, of the organisation mzk: examined, harvested, with a record that cannot be read."""
    with server.database.session() as session:
        telc = a_repository(session)
        telc.examined, telc.examination = BEGAN, an_examination().as_json()
        session.add(RepositoryOwner(repository_id=telc.repository_id, organisation_id=1))
        for status, verdict, records in (
            (RunStatus.COMPLETED, "complete", 1200),
            (RunStatus.FAILED, "failed", 0),
        ):
            now = utc_now()
            start = now - timedelta(minutes=1)
            times = {"harvest_start_time": start, "harvest_end_time": now}
            a_run(session, telc, status=status, verdict=verdict, record_count=records, **times)
        session.add(
            Quarantined(
                repository_id=telc.repository_id, metadata_prefix="oai_dc", fault_key=uuid.uuid4(),
                identifier="oai:telc.example:7", reason="not well-formed", url="https://telc.example/oai",
                raw=b"<a>", raw_size=3, last_run=BEGAN,
            )
        )  # fmt: skip
        session.commit()


async def _link(browser: Browser) -> str:
    """Make a link; return its path."""
    status, text, _ = await browser.post("/repositories/1/card")
    assert status == 200
    found = re.search(r"/cards/[\w-]{22}", html.unescape(text))
    assert found is not None
    return found[0]


@pytest.mark.usefixtures("repository")
async def test_a_stranger_sees_the_report_and_no_data_of_partners(owner: Browser, stranger: Browser) -> None:
    path = await _link(owner)
    async with stranger.http.get(stranger.base_url + path) as answer:
        text = await answer.text()
        assert answer.headers["X-Robots-Tag"] == "noindex, nofollow"
    for seen in ("Library of Telč", "oai:telc.example:7", ">20<", "Check again"):
        assert seen in text
    for unseen in ("/repositories/", "/records/", "/errors/"):
        assert unseen not in text
    # Whole words are compared, because the page's random tokens may contain these letters.
    assert not re.search(r"(?<![\w-])(mzk|Olga)(?![\w-])", text)
    assert (await stranger.get("/repositories/1"))[0] == 303


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("name", ["Library of Telč", None])
async def test_a_stranger_sees_no_credentials_of_the_base_url(
    server: Server, owner: Browser, stranger: Browser, name: str | None
) -> None:
    path = await _link(owner)
    with server.database.session() as session:
        telc = session.get_one(Repository, 1)
        telc.base_url, telc.repository_name = "https://me:s%40cret@telc.example/oai", name
        telc.admin_email = "librarian@telc.example"
        session.commit()
    _, card = await stranger.get(path)
    with server.database.session() as session:
        row = session.get_one(Repository, 1)
        offer_digest(session, row, "librarian@telc.example", Language.ENGLISH, path.rpartition("/")[2])
        session.commit()
        digest = session.scalars(select(NoticeDigest)).one()
        facts = session.scalars(select(Notice.facts)).one()
    _, page = await stranger.get(f"/digests/{digest.token}")
    for text in (card, page, str(facts)):
        assert "telc.example/oai" in text or "Library of Telč" in text
        assert "cret@" not in text


@pytest.mark.usefixtures("repository")
async def test_an_unreadable_date_range_is_not_shown_as_a_record_on_the_card(
    server: Server, owner: Browser, stranger: Browser
) -> None:
    with server.database.session() as session:
        facts = {"range": "2024-01-01", "for": {"code": "http_server_error"}}
        values = {"identifier": None, "failure_code": "list_partly_read", "failure_facts": facts}
        session.execute(update(Quarantined).values(**values))
        session.commit()
    _, text = await stranger.get(await _link(owner))
    assert "A part of the list could not be read" in text
    assert "The repository reports an internal error." in text
    assert "record cannot be read" not in text


@pytest.mark.usefixtures("repository")
async def test_a_link_is_invalid_after_a_new_one_after_revocation_and_after_expiry(
    server: Server, owner: Browser, stranger: Browser
) -> None:
    first, second = await _link(owner), await _link(owner)
    assert [(await stranger.get(path))[0] for path in (first, second)] == [404, 200]
    with server.database.session() as session:
        session.execute(update(ReportCard).values(expires=func.now()))
        session.commit()
    assert (await stranger.get(second))[0] == 404
    third = await _link(owner)
    await owner.post("/repositories/1/card/revoke")
    assert (await stranger.get(third))[0] == 404
    token = await stranger.token("/sign-in")
    assert (await stranger.post(f"{third}/check", token=token))[0] == 404


@pytest.mark.usefixtures("repository")
async def test_only_users_who_may_change_the_repository_can_create_links(
    viewer: Browser, colleague: Browser
) -> None:
    assert (await viewer.post("/repositories/1/card"))[0] == 403
    assert (await colleague.post("/repositories/1/card"))[0] == 404


@pytest.mark.usefixtures("repository")
async def test_a_stranger_may_check_again_once_an_hour(
    server: Server, owner: Browser, stranger: Browser
) -> None:
    path = await _link(owner)
    async with serve(FakeRepository(items=many(3))) as served:
        with server.database.session() as session:
            session.get_one(Repository, 1).base_url = served.url
            session.commit()
        token = await stranger.token(path)
        assert (await stranger.post(f"{path}/check", token="wrong"))[0] == 403
        assert (await stranger.post(f"{path}/check", token=token))[2].endswith("done=card-checked")
        assert server.app[DIAGNOSTICS].of(1) is not None
        assert (await stranger.post(f"{path}/check", token=token))[2].endswith("done=card-too-soon")
        await server.app[DIAGNOSTICS].close()


def test_medians_need_several_repositories(server: Server) -> None:
    with server.database.session() as session:
        for number in range(6):
            repository = a_repository(session, folder=f"f{number}")
            now = utc_now()
            times = {"harvest_start_time": now - timedelta(seconds=10), "harvest_end_time": now}
            a_run(session, repository, record_count=number * 100, **times)
            found = medians_of_all(session)
            assert (found.speed is None) is (number < 5)
        assert found.repositories == 6
        assert found.speed == pytest.approx(30)


@pytest.mark.usefixtures("repository")
async def test_a_stranger_can_subscribe_only_published_addresses_to_the_digest(
    server: Server, owner: Browser, stranger: Browser
) -> None:
    path = await _link(owner)
    token = await stranger.token(path)
    _, before = await stranger.get(path)
    assert "Every week by e-mail" not in before, "there is no mail server"
    old = server.app[SETTINGS]
    # Settings are read once; tests alone change them under a running application.
    server.app._state[SETTINGS] = old.model_copy(  # noqa: SLF001
        update={
            "mail": MailSettings(host="127.0.0.1", port=1),
            "web": old.web.model_copy(update={"base_url": server.base_url}),
        }
    )
    with server.database.session() as session:
        session.execute(update(Repository).values(admin_email="keeper@telc.example"))
        session.commit()
    for form, status in (
        ({"address": "victim@elsewhere.example", "language": "cs"}, 409),
        ({"address": "keeper@telc.example", "language": "xx"}, 400),
        ({"address": "keeper@telc.example", "language": "cs"}, 303),
        ({"address": "keeper@telc.example", "language": "cs"}, 409),
    ):
        assert (await stranger.post(f"{path}/digest", form, token=token))[0] == status
    with server.database.session() as session:
        link = f"/digests/{session.scalars(select(NoticeDigest.token)).one()}"
    status, text = await stranger.get(link)
    assert (status, "keeper@telc.example" in text) == (200, True)
    for step, expected in (("confirm", 303), ("stop", 200)):
        assert (await stranger.post(link, {"do": step}, token=token))[0] == expected
    assert (await stranger.get(link))[0] == 404
    assert (await stranger.get(f"/digests/{'x' * 22}"))[0] == 404
    with server.database.session() as session:
        answers = select(AuditEntry.object_kind, AuditEntry.object_id, AuditEntry.object_name)
        found = session.execute(answers.where(AuditEntry.action == "digest.answer")).all()
        name = session.scalars(select(Repository)).one().display_name
    assert found == [("repository", "1", name)] * 2, "the log has no token of a link"
