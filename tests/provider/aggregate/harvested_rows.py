"""Harvested records without a harvester: rows and files as it leaves them, written by plain SQL."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lxml import etree
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database
from oai.settings import Settings
from provider.aggregate.catalogue import make_aggregate
from provider.aggregate.identifiers import identifier_key
from provider.aggregate.sources import add_source, find_repository
from provider.aggregate.update import Updater, updater
from provider.protocol.repository import Repository

OAI = "{http://www.openarchives.org/OAI/2.0/}"

_RECORD = """
INSERT INTO oai_record AS known (repository_id, metadata_prefix, identifier, identifier_key, filename,
                                 datestamp, status, digest)
VALUES (1, 'oai_dc', :identifier, :key, :filename, '2024-01-01', :status, :digest)
ON CONFLICT (repository_id, metadata_prefix, identifier_key) DO UPDATE
SET status = excluded.status, digest = excluded.digest
RETURNING record_id
"""
_SET = "INSERT INTO oai_set_mapping (record_id, set_spec) VALUES (:id, :set_spec) ON CONFLICT DO NOTHING"
_CHANGE = """
INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier, metadata_prefix,
                        change, datestamp)
SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint), 1, 1, now(), :identifier, 'oai_dc', 'updated', 'x'
"""


@dataclass(frozen=True, kw_only=True)
class Harvested:
    """A repository that is harvested and published again as the set `one`."""

    database: Database
    settings: Settings

    @property
    def folder(self) -> Path:
        return self.settings.store / "one"

    def begin(self) -> None:
        self.folder.mkdir(parents=True)
        with self.database.session() as session:
            session.execute(
                text("INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://o/', 'one')")
            )
            add_source(session, find_repository(session, "1"), name="one")
            session.commit()

    def write(
        self,
        session: Session,
        name: str,
        *,
        version: int = 0,
        deleted: bool = False,
        sets: Iterable[str] = (),
        namespace: str = "urn:v",
    ) -> None:
        """A record's file, row and line in the feed; the caller commits."""
        identifier = f"oai:one:{name}"
        header = f"<header><identifier>{identifier}</identifier><datestamp>2024-01-01</datestamp></header>"
        data = (
            f'<record xmlns="http://www.openarchives.org/OAI/2.0/">{header}'
            f'<metadata><v xmlns="{namespace}">{version}</v></metadata></record>'
        ).encode()
        unfinished = self.folder / f"{name}~part"
        unfinished.write_bytes(data)
        unfinished.replace(self.folder / f"{name}.xml")
        values = {
            "identifier": identifier,
            "key": identifier_key(identifier),
            "filename": f"{name}.xml",
            "status": "deleted" if deleted else "active",
            "digest": hashlib.sha256(data).digest(),
        }
        record_id = session.execute(text(_RECORD), values).scalar_one()
        for set_spec in sets:
            session.execute(text(_SET), {"id": record_id, "set_spec": set_spec})
        session.execute(text(_CHANGE), {"identifier": identifier})

    def update(self) -> int:
        with updater(self.database.engine, self.settings) as mine:
            assert isinstance(mine, Updater)
            return mine.run().records

    def repository(self) -> Repository:
        return make_aggregate(self.settings, self.database, "http://aggregate.example/oai/aggregate")


def state_of(record: etree._Element) -> tuple[bool, str]:
    """Whether a record is listed as deleted, and its version."""
    deleted = record.find(f"{OAI}header[@status='deleted']") is not None
    return deleted, "" if deleted else str(record.findtext(f"{OAI}metadata/{{urn:v}}v"))
