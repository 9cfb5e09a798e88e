"""The weekly digest to a harvested repository's administrator: confirmed, due, and stopped."""

import hashlib
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from psycopg.types.json import Jsonb

from harvester.models import Repository
from manager.notices.digests import confirm_digest, find_digest, offer_digest, stop_digest, write_digests
from manager.notices.letters import render
from manager.notices.models import Language, Notice, Occasion
from oai.database import Database
from oai.errors import UsageError
from tests.manager.conftest import QUICK, manager_process, until
from tests.manager.notices.conftest import Announcer
from tests.manager.notices.mail_server import mail_server

CARD = "c" * 22
KEEPER = "keeper@library.example"


@pytest.fixture
def card(announcer: Announcer) -> None:
    """The repository has a report card for another day."""
    announcer.tables.add(
        "web_report_card",
        repository_id=announcer.repository,
        token_hash=hashlib.sha256(CARD.encode()).digest(),
        expires=datetime.now(UTC) + timedelta(days=1),
    )


def offer(
    database: Database, announcer: Announcer, address: str = KEEPER, language: Language = Language.CZECH
) -> str:
    with database.session() as session:
        offer_digest(session, session.get_one(Repository, announcer.repository), address, language, CARD)
        session.commit()
    token: str = announcer.tables.one("SELECT token FROM notice_digest")
    return token


def written(database: Database) -> int:
    with database.session() as session:
        count = write_digests(session)
        session.commit()
        return count


def agreed(database: Database, announcer: Announcer) -> str:
    token = offer(database, announcer)
    with database.session() as session:
        assert confirm_digest(session, token)
        session.commit()
    return token


def a_week_later(announcer: Announcer) -> None:
    announcer.tables("UPDATE notice_digest SET written = written - interval '7 days'")


@pytest.mark.usefixtures("card")
def test_a_digest_is_written_after_a_week_with_harvests_once_it_is_confirmed(
    database: Database, announcer: Announcer
) -> None:
    token = offer(database, announcer)
    announcer.run("failed")
    announcer.run("failed", failure_code="repository_locked")
    assert written(database) == 0, "not agreed to"
    assert announcer.tables.one("SELECT occasion FROM notice") == "digest link"

    with database.session() as session:
        assert confirm_digest(session, token)
        session.commit()
    assert written(database) == 0, "the week is not over"
    a_week_later(announcer)
    assert [written(database), written(database)] == [1, 0]
    with database.session() as session:
        notice = session.get_one(Notice, 2)
    assert (notice.target, notice.language, notice.facts["runs"], notice.facts["troubled"]) == (
        KEEPER,
        "cs",
        1,
        1,
    )
    until = announcer.tables.one("SELECT expires FROM web_report_card")
    assert until > datetime.now(UTC) + timedelta(days=80), "the card stays open"


@pytest.mark.usefixtures("card")
def test_date_ranges_that_could_not_be_listed_do_not_count_as_unreadable_records(
    database: Database, announcer: Announcer
) -> None:
    agreed(database, announcer)
    announcer.run("completed with errors")
    announcer.tables.add(
        "oai_quarantine",
        repository_id=announcer.repository,
        metadata_prefix="oai_dc",
        fault_key=uuid.uuid4(),
        reason="HTTP status 500",
        failure_code="list_partly_read",
        failure_facts=Jsonb({"range": "2024-01-01", "for": {"code": "http_server_error"}}),
        url="https://library.example/oai",
        raw=b"",
        raw_size=0,
        last_run=datetime.now(UTC),
    )
    a_week_later(announcer)
    assert written(database) == 1
    with database.session() as session:
        facts = session.get_one(Notice, 2).facts
    assert (facts["errors"], facts["examples"]) == (0, [])
    letter = render(Occasion.DIGEST, "en", facts, dashboard="https://zatva.example")
    assert letter.subject.endswith("a part of the list cannot be read")
    assert "records may be missing. The repository reports an internal error." in letter.body


@pytest.mark.usefixtures("card")
def test_a_week_without_harvests_has_no_digest(database: Database, announcer: Announcer) -> None:
    agreed(database, announcer)
    a_week_later(announcer)
    assert written(database) == 0
    announcer.run("completed")
    assert written(database) == 0, "the next week has begun"


@pytest.mark.usefixtures("card")
def test_weeks_without_harvests_keep_the_card_open(database: Database, announcer: Announcer) -> None:
    agreed(database, announcer)
    a_week_later(announcer)
    assert written(database) == 0
    announcer.tables("UPDATE web_report_card SET expires = expires - interval '7 days'")
    announcer.run("completed")
    a_week_later(announcer)
    assert written(database) == 1


@pytest.mark.usefixtures("card")
def test_the_next_digest_is_written_after_a_week_if_the_clock_was_ahead(
    database: Database, announcer: Announcer
) -> None:
    agreed(database, announcer)
    announcer.tables("UPDATE notice_digest SET written = now() + interval '1 year'")
    assert written(database) == 0
    announcer.run("completed")
    a_week_later(announcer)
    assert written(database) == 1


@pytest.mark.usefixtures("card")
def test_another_address_has_to_confirm_again(database: Database, announcer: Announcer) -> None:
    agreed(database, announcer)
    announcer.run("failed")
    announcer.tables("UPDATE notice_digest SET asked = asked - interval '2 days'")
    announcer.tables("UPDATE oai_repository SET admin_email = 'other@library.example'")
    a_week_later(announcer)
    offer(database, announcer, "other@library.example")
    assert written(database) == 0
    announcer.tables("UPDATE notice_digest SET written = now() - interval '8 days'")
    assert written(database) == 0, "as an earlier version left it"


@pytest.mark.usefixtures("card")
def test_a_digest_ends_when_it_is_stopped_or_its_card_is_revoked(
    database: Database, announcer: Announcer
) -> None:
    token = agreed(database, announcer)
    announcer.run("completed")
    a_week_later(announcer)
    announcer.tables("UPDATE web_report_card SET token_hash = '\\x00'")
    assert written(database) == 0
    with database.session() as session:
        assert find_digest(session, token) is not None
        stop_digest(session, token)
        session.commit()
        assert find_digest(session, token) is None
        assert not confirm_digest(session, token)


def test_only_published_addresses_are_asked_and_at_most_once_a_day(
    database: Database, announcer: Announcer
) -> None:
    with pytest.raises(UsageError, match="publishes"):
        offer(database, announcer, "victim@elsewhere.example")
    first = offer(database, announcer)
    with pytest.raises(UsageError, match="last day"):
        offer(database, announcer)
    announcer.tables("UPDATE notice_digest SET asked = asked - interval '2 days', confirmed = now()")
    assert offer(database, announcer) != first, "an old link does not confirm"


@pytest.mark.usefixtures("card")
async def test_a_manager_sends_a_digest_by_mail_with_its_links(
    database: Database, announcer: Announcer, environment: dict[str, str]
) -> None:
    token = agreed(database, announcer)
    announcer.run("failed")
    a_week_later(announcer)
    announcer.tables("UPDATE notice SET state = 'sent' WHERE occasion = 'digest link'")
    async with mail_server() as server:
        settings = {
            "ZATVA_MAIL__HOST": "127.0.0.1",
            "ZATVA_MAIL__PORT": str(server.port),
            "ZATVA_MAIL__SECURITY": "none",
            "ZATVA_WEB__BASE_URL": "https://zatva.example",
            **{f"ZATVA_MANAGER__{name.upper()}": str(value) for name, value in QUICK.items()},
        }
        async with manager_process(environment | settings, "zatva", "manager", "run"):
            await until(lambda: server.mails)

    (mail,) = server.mails
    assert mail.message["To"] == KEEPER
    assert f"https://zatva.example/cards/{CARD}" in mail.text
    assert token in mail.text, "the way to stop it"
    assert "Sklízíme váš repozitář https://library.example/oai" in mail.text
