"""Determines the metadata format of a source's records and its prefix in the aggregate."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.vocabulary import OAI_DC_NAMESPACE, OAI_DC_SCHEMA
from provider.aggregate import harvested
from provider.aggregate.models import AggregateFormat, AggregateRecord
from provider.aggregate.stored_records import UnreadableRecordError, metadata_vocabulary
from provider.protocol.formats import FORMATS

OAI_DC: Final = "oai_dc"
_EXAMPLES: Final = 10
"""Records that are read for the address of a schema, which not all records name."""
_SCHEMAS: Final = {known.namespace: known.schema for known in FORMATS.values()}
_NOT_IN_PREFIX: Final = re.compile(r"[^A-Za-z0-9\-_.!~*'()]")


@dataclass(kw_only=True)
class Formats:
    """Finds the format for a source's prefix, and creates it if it is new. For use in one transaction."""

    session: Session
    store: Path
    """The folder that relative base directories are resolved against."""
    known: dict[tuple[int, str], int] = field(default_factory=dict)

    def number(self, repository_id: int, prefix: str) -> int:
        """Return `AggregateFormat.id` for records harvested from the repository with this prefix."""
        wanted = (repository_id, prefix)
        if wanted not in self.known:
            # Published records keep their format, even if the source now states another namespace.
            found = self._used(repository_id, prefix) or self._own_format(repository_id, prefix)
            self._add_schema(found, repository_id, prefix)
            self.known[wanted] = found
        return self.known[wanted]

    def _add_schema(self, format_id: int, repository_id: int, prefix: str) -> None:
        """Store the address of the schema if it was not known when the format was created."""
        stored = self.session.get_one(AggregateFormat, format_id)
        if not stored.schema:
            namespace, schema = self._vocabulary(repository_id, prefix)
            stored.schema = schema if namespace == stored.namespace else ""

    def _used(self, repository_id: int, prefix: str) -> int | None:
        of_this_name = select(AggregateFormat.id).where(AggregateFormat.harvested_prefix == prefix)
        found = self.session.scalars(of_this_name.order_by(AggregateFormat.id)).all()
        for format_id in found:
            has_records = select(AggregateRecord.id).where(
                AggregateRecord.repository_id == repository_id, AggregateRecord.format_id == format_id
            )
            if self.session.scalar(has_records.limit(1)) is not None:
                return format_id
        return None

    def _own_format(self, repository_id: int, prefix: str) -> int:
        namespace, schema = self._vocabulary(repository_id, prefix)
        found = self.session.scalar(
            select(AggregateFormat.id).where(
                AggregateFormat.harvested_prefix == prefix, AggregateFormat.namespace == namespace
            )
        )
        if found is not None:
            return found
        made = AggregateFormat(
            prefix=self._free_prefix(prefix), harvested_prefix=prefix, namespace=namespace, schema=schema
        )
        self.session.add(made)
        self.session.flush()
        return made.id

    def _vocabulary(self, repository_id: int, prefix: str) -> tuple[str, str]:
        """Return namespace and schema from ListMetadataFormats, otherwise from records' metadata."""
        formats, mappings = harvested.METADATA_FORMAT.c, harvested.PREFIX_MAPPING.c
        declared = self.session.execute(
            select(formats.metadata_namespace, formats.metadata_schema)
            .join(harvested.PREFIX_MAPPING, mappings.prefix_id == formats.prefix_id)
            .where(mappings.repository_id == repository_id, formats.metadata_prefix == prefix)
            .order_by(formats.prefix_id)
        ).first()
        if declared is not None and declared[0]:
            namespace, schema = declared
        elif prefix == OAI_DC:
            namespace, schema = OAI_DC_NAMESPACE, OAI_DC_SCHEMA
        else:
            namespace, schema = self._shown(repository_id, prefix)
        return namespace, schema or _SCHEMAS.get(namespace, "")

    def _shown(self, repository_id: int, prefix: str) -> tuple[str, str]:
        record, repository = harvested.RECORD.c, harvested.REPOSITORY.c
        examples = self.session.execute(
            select(repository.base_dir, record.filename, record.identifier)
            .join(harvested.REPOSITORY, repository.repository_id == record.repository_id)
            .where(
                record.repository_id == repository_id,
                record.metadata_prefix == prefix,
                record.status != harvested.DELETED,
                record.filename.is_not(None),
            )
            .limit(_EXAMPLES)
        )
        first = ""
        for base_dir, filename, identifier in examples:
            try:
                namespace, schema = metadata_vocabulary(self.store / base_dir, filename, identifier)
            except UnreadableRecordError:
                continue
            first = first or namespace
            if schema and namespace == first:
                return namespace, schema
        return first, ""

    def _free_prefix(self, prefix: str) -> str:
        """Return the prefix, with a number appended if another format has it."""
        begin = _NOT_IN_PREFIX.sub("_", prefix)
        taken = set(self.session.scalars(select(AggregateFormat.prefix)))
        number = 1
        name = begin
        while name in taken:
            number += 1
            name = f"{begin}.{number}"
        return name
