"""What is kept of what could not be read."""

from datetime import UTC, datetime

from sqlalchemy import select

from harvester.harvest.models import Quarantined
from harvester.harvest.quarantine import open_quarantine, quarantined
from harvester.harvest.request import HarvestRequest
from harvester.harvest.transform import Refusal
from harvester.repositories import add_repository
from oai.database import Database
from oai.failures import Failure, FailureCode

NOW = datetime(2024, 6, 1, tzinfo=UTC)
BROKEN = Failure(code=FailureCode.RECORD_XML)


def test_large_bytes_are_cut_and_their_size_is_told(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        request = HarvestRequest(repository_id=repository.repository_id)
        quarantine = open_quarantine(session, request, run_started=NOW)
        assert not quarantine.occupied
        large = Refusal(reason="large", url="http://x/", raw=b"x" * 3_000_000, failure=BROKEN)
        quarantine.add(session, [large], now=NOW)
        kept = session.scalars(select(Quarantined)).one()
        assert (len(kept.raw), kept.raw_size) == (1_000_000, 3_000_000)
        assert open_quarantine(session, request, run_started=NOW).occupied


def test_the_same_fault_is_kept_once_and_what_no_database_takes_is_written_out(database: Database) -> None:
    with database.session() as session:
        repository = add_repository(session, base_url="http://x/oai", base_dir="x")
        quarantine = open_quarantine(
            session, HarvestRequest(repository_id=repository.repository_id), run_started=NOW
        )
        reason = "nul \0 and \udcff"
        bad = Refusal(reason=reason, url="http://x/", identifier="oai:x:\0", raw=b"\0", failure=BROKEN)
        quarantine.add(session, [bad, bad], now=NOW)
        quarantine.add(session, [bad], now=NOW)
        (kept,) = quarantined(session, repository_id=repository.repository_id)
        assert (kept.identifier, kept.raw) == ("oai:x:␀", b"\0")
        assert quarantined(session, history_id=12345) == []
