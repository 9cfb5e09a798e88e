"""A fake repository and its harvested records: real server, database and files."""

import asyncio
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from harvester.harvest.harvest import harvest
from harvester.harvest.models import Hold, Quarantined
from harvester.harvest.page_pipeline import Progress
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.run import Tuning
from harvester.models import Harvest, History, Record, Repository
from harvester.repositories import add_repository
from harvester.store.audit import Audit, Auditor, StoreFinding
from oai.database import Database
from oai.settings import Settings
from tests.commands import zatva_beside
from tests.harvester.fake_repository import Answer, FakeRepository, Item


class Library:
    """Harvests one fake repository into a directory."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        fake: FakeRepository,
        folder: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.database = database
        self.settings = settings
        self.environment = environment or {}
        self.fake = fake
        self.folder = folder
        self.tuning = Tuning()
        with database.session() as session:
            added = add_repository(session, base_url=fake.url, base_dir=str(folder))
            session.commit()
            self.repository_id = added.repository_id

    def change_settings(self, **values: Any) -> None:
        ours = self.settings.harvester.model_copy(update=values)
        self.settings = self.settings.model_copy(update={"harvester": ours})

    def change_repository(self, **values: Any) -> None:
        with self.database.session() as session:
            session.execute(update(Repository).values(**values))
            session.commit()

    async def run(
        self,
        *,
        stop: asyncio.Event | None = None,
        on_progress: Progress = lambda _counts, _total: None,
        **parameters: Any,
    ) -> RunOutcome:
        request = HarvestRequest(repository_id=self.repository_id, **parameters)
        return await harvest(
            self.database,
            self.settings,
            request,
            stop=stop or asyncio.Event(),
            on_progress=on_progress,
            tuning=self.tuning,
        )

    async def command(self, *arguments: str) -> tuple[int | None, str, str]:
        done = await zatva_beside(self.environment, *arguments)
        return done.returncode, done.stdout, done.stderr

    def audit(self, **options: Any) -> tuple[Audit, list[StoreFinding]]:
        found: list[StoreFinding] = []
        audit = Auditor(
            database=self.database,
            repository_id=self.repository_id,
            folder=self.folder,
            on_finding=found.append,
            **options,
        ).run()
        return audit, found

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def exists(self, path: Path) -> bool:
        return path.exists()

    def numbers(self) -> set[int]:
        """Return the numbers of the stored records, which are their files' names."""
        return {int(path.stem) for path in self.folder.rglob("*.xml")}

    def history(self) -> list[History]:
        with self.database.session() as session:
            return list(session.scalars(select(History).order_by(History.history_id)))

    def harvest_row(self) -> Harvest:
        with self.database.session() as session:
            return session.scalars(select(Harvest)).one()

    def quarantine(self) -> list[Quarantined]:
        with self.database.session() as session:
            return list(session.scalars(select(Quarantined).order_by(Quarantined.quarantine_id)))

    def records(self) -> dict[str, Record]:
        with self.database.session() as session:
            return {record.identifier: record for record in session.scalars(select(Record))}

    def living(self) -> set[str]:
        return {name for name, record in self.records().items() if record.status == "active"}

    def holds(self) -> list[Hold]:
        with self.database.session() as session:
            return list(session.scalars(select(Hold).order_by(Hold.history_id)))

    def delete(self, *numbers: int, datestamp: str = "2024-06-02T00:00:00Z") -> None:
        """Mark records of the repository as deleted."""
        for number in numbers:
            old = self.fake.items[number]
            self.fake.items[number] = Item(
                identifier=old.identifier, datestamp=datestamp, deleted=True, sets=old.sets
            )

    def windows(self) -> list[tuple[str | None, str | None]]:
        """The date ranges of the lists that were requested."""
        asked = [one for one in self.fake.lists() if "resumptionToken" not in one]
        return [(one.get("from"), one.get("until")) for one in asked]

    def forgets(self, *, get_record: bool = True) -> None:
        """Make the repository report that it keeps no deletions; `get_record`: it answers GetRecord."""

        def answer(asked: dict[str, str], good: bytes) -> bytes | Answer:
            if asked.get("verb") == "GetRecord" and not get_record:
                return 501, {}, b"not implemented"
            return good.replace(b">persistent<", b">no<")

        self.fake.fault = answer


def facts_of(run: History) -> dict[str, Any]:
    """Return the facts of the run's failure, without the request's URL, whose port varies."""
    facts = dict(run.failure_facts or {})
    assert facts.pop("url", "http://").startswith("http://")
    return facts


def touch(path: Path, data: bytes) -> None:
    """Write a file that no harvest has written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
