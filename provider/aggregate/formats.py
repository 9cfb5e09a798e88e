"""Determines the metadata format of a source's records and its prefix in the aggregate."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from oai.vocabulary import OAI_DC_NAMESPACE, OAI_DC_SCHEMA
from provider.aggregate import harvested
from provider.aggregate.models import AggregateFormat, AggregateRecord, AggregateSource
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
    known: dict[tuple[int, str], int | None] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    """Prefixes in which a repository had no published records yet."""

    def number(self, repository_id: int, prefix: str) -> int | None:
        """Return `AggregateFormat.id` for records harvested from the repository with this prefix.

        None if nothing shows the format yet, because all of them are deleted, and none is published.
        """
        wanted = (repository_id, prefix)
        if wanted not in self.known:
            if prefix == OAI_DC:
                self._mend_oai_dc()
            # Published records keep their format, even if the source now states another namespace.
            used = found = self._used(repository_id, prefix)
            if used is None or self._is_unknown(used) or self._is_oai_dc_now(used, repository_id, prefix):
                found = self._own_format(repository_id, prefix) or used
            if found is not None:
                self._add_schema(found, repository_id, prefix)
                if used is None:
                    self.begun.add(prefix)
            self.known[wanted] = found
        return self.known[wanted]

    def name_unknown(self) -> None:
        """Give the formats whose namespace was unknown the one that their sources' records show now."""
        unknown = select(AggregateFormat).where(AggregateFormat.namespace == "")
        for nameless in self.session.scalars(unknown).all():
            prefix = nameless.harvested_prefix
            for repository_id in self._publishing(nameless):
                namespace, schema = self._vocabulary(repository_id, prefix) or ("", "")
                if namespace and self._of_namespace(prefix, namespace) is None:
                    self._name(prefix, namespace, schema)

    def others(self, format_id: int) -> Sequence[int]:
        """Return the other formats that sources call by the same prefix."""
        prefix = self.session.get_one(AggregateFormat, format_id).harvested_prefix
        return self.session.scalars(
            select(AggregateFormat.id).where(
                AggregateFormat.harvested_prefix == prefix, AggregateFormat.id != format_id
            )
        ).all()

    def _is_oai_dc_now(self, used: int, repository_id: int, prefix: str) -> bool:
        """Return whether records are oai_dc now, but published in another format of this name."""
        if prefix != OAI_DC or self.session.get_one(AggregateFormat, used).prefix == OAI_DC:
            return False
        return self._shown_namespace(repository_id, prefix) == OAI_DC_NAMESPACE

    def _is_unknown(self, format_id: int) -> bool:
        return not self.session.get_one(AggregateFormat, format_id).namespace

    def _mend_oai_dc(self) -> None:
        """Give `oai_dc` the protocol's namespace; earlier versions took what the first source declared.

        It stays as it is if a source's records are really in another namespace, or if another format has the
        protocol's: harvesters would see records deleted that have not changed.
        """
        named = select(AggregateFormat).where(AggregateFormat.harvested_prefix == OAI_DC)
        formats = self.session.scalars(named).all()
        wrong = next((one for one in formats if one.prefix == OAI_DC), None)
        if wrong is None or any(one.namespace == OAI_DC_NAMESPACE for one in formats):
            return
        shown = {self._shown_namespace(one, OAI_DC) for one in self._publishing(wrong)} - {""}
        if shown == {OAI_DC_NAMESPACE}:
            wrong.namespace, wrong.schema = OAI_DC_NAMESPACE, OAI_DC_SCHEMA
            self.session.flush()

    def _publishing(self, used: AggregateFormat) -> Sequence[int]:
        """Return the repositories that have published records in the format."""
        published = exists().where(
            AggregateRecord.repository_id == AggregateSource.repository_id,
            AggregateRecord.format_id == used.id,
        )
        return self.session.scalars(select(AggregateSource.repository_id).where(published)).all()

    def _add_schema(self, format_id: int, repository_id: int, prefix: str) -> None:
        """Store the address of the schema if it was not known when the format was created."""
        stored = self.session.get_one(AggregateFormat, format_id)
        if not stored.schema:
            namespace, schema = self._vocabulary(repository_id, prefix) or ("", "")
            stored.schema = schema if namespace == stored.namespace else ""

    def _used(self, repository_id: int, prefix: str) -> int | None:
        of_this_name = select(AggregateFormat.id).where(AggregateFormat.harvested_prefix == prefix)
        # Of a source that has corrected its oai_dc, deleted records remain in the other format; of one whose
        # namespace was unknown, unchanged ones.
        order = AggregateFormat.namespace != OAI_DC_NAMESPACE, AggregateFormat.namespace == ""
        found = self.session.scalars(of_this_name.order_by(*order, AggregateFormat.id)).all()
        for format_id in found:
            has_records = select(AggregateRecord.id).where(
                AggregateRecord.repository_id == repository_id, AggregateRecord.format_id == format_id
            )
            if self.session.scalar(has_records.limit(1)) is not None:
                return format_id
        return None

    def _own_format(self, repository_id: int, prefix: str) -> int | None:
        vocabulary = self._vocabulary(repository_id, prefix)
        if vocabulary is None:
            return self._likely_format(repository_id, prefix)
        namespace, schema = vocabulary
        found = self._of_namespace(prefix, namespace)
        if found is None:
            found = self._name(prefix, namespace, schema)
        return found or self._create(prefix, namespace, schema)

    def _likely_format(self, repository_id: int, prefix: str) -> int | None:
        """Return the format for records that cannot be read now; None if there are only deleted ones.

        Sources rarely use one prefix for different formats, so it is the only known one.
        """
        record = harvested.RECORD.c
        of_source = record.repository_id == repository_id, record.metadata_prefix == prefix
        if not self.session.scalar(select(exists().where(*of_source, record.status != harvested.DELETED))):
            return None
        of_prefix = select(AggregateFormat.id).where(AggregateFormat.harvested_prefix == prefix)
        found = self.session.scalars(of_prefix).all()
        if len(found) == 1:
            return found[0]
        return self._of_namespace(prefix, "") or self._create(prefix, "", "")

    def _of_namespace(self, prefix: str, namespace: str) -> int | None:
        return self.session.scalar(
            select(AggregateFormat.id)
            .where(
                AggregateFormat.harvested_prefix == prefix,
                func.rtrim(AggregateFormat.namespace, "/") == namespace.rstrip("/"),
            )
            .order_by(AggregateFormat.id)
        )

    def _name(self, prefix: str, namespace: str, schema: str) -> int | None:
        """Give the format whose namespace is unknown this one, unless its records show another.

        Return its id; None if there is no such format.
        """
        unknown = AggregateFormat.harvested_prefix == prefix, AggregateFormat.namespace == ""
        nameless = self.session.scalar(select(AggregateFormat).where(*unknown))
        if nameless is None:
            return None
        shown = [self._vocabulary(one, prefix) for one in self._publishing(nameless)]
        if any(one is not None and one[0].rstrip("/") != namespace.rstrip("/") for one in shown):
            return None
        nameless.namespace, nameless.schema = namespace, schema
        self.session.flush()
        return nameless.id

    def _create(self, prefix: str, namespace: str, schema: str) -> int:
        made = AggregateFormat(
            prefix=self._free_prefix(prefix, namespace),
            harvested_prefix=prefix,
            namespace=namespace,
            schema=schema,
        )
        self.session.add(made)
        self.session.flush()
        return made.id

    def _vocabulary(self, repository_id: int, prefix: str) -> tuple[str, str] | None:
        """Return namespace and schema from ListMetadataFormats, otherwise from records' metadata.

        None if the source declares neither and no record can be read. The protocol defines oai_dc: records in
        its namespace are, whatever namespace the source declares.
        """
        namespace, schema = self._declared(repository_id, prefix)
        if prefix == OAI_DC and namespace != OAI_DC_NAMESPACE:
            if not namespace or self._shown_namespace(repository_id, prefix) == OAI_DC_NAMESPACE:
                namespace, schema = OAI_DC_NAMESPACE, OAI_DC_SCHEMA
        elif not namespace:
            shown = self._shown(repository_id, prefix)
            if shown is None:
                return None
            namespace, schema = shown
        return namespace, schema or _SCHEMAS.get(namespace, "")

    def _declared(self, repository_id: int, prefix: str) -> tuple[str, str]:
        """Return namespace and schema from ListMetadataFormats; empty without them."""
        formats, mappings = harvested.METADATA_FORMAT.c, harvested.PREFIX_MAPPING.c
        declared = self.session.execute(
            select(formats.metadata_namespace, formats.metadata_schema)
            .join(harvested.PREFIX_MAPPING, mappings.prefix_id == formats.prefix_id)
            .where(mappings.repository_id == repository_id, formats.metadata_prefix == prefix)
            .order_by(formats.prefix_id)
        ).first()
        namespace, schema = declared or ("", "")
        # Some sources omit the slash at the end, or add one.
        known = {one.rstrip("/"): one for one in _SCHEMAS}
        return known.get((namespace or "").rstrip("/"), namespace or ""), schema or ""

    def _shown_namespace(self, repository_id: int, prefix: str) -> str:
        """Return the namespace of records' metadata; empty if none can be read."""
        return (self._shown(repository_id, prefix) or ("", ""))[0]

    def _shown(self, repository_id: int, prefix: str) -> tuple[str, str] | None:
        """Return namespace and schema of records' metadata; None if none can be read."""
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
            # By a hash: neighbours in the table may all be in one folder that is lost.
            .order_by(record.identifier_key)
            .limit(_EXAMPLES)
        )
        first: str | None = None
        for base_dir, filename, identifier in examples:
            try:
                namespace, schema = metadata_vocabulary(self.store / base_dir, filename, identifier)
            except UnreadableRecordError:
                continue
            first = first or namespace
            if schema and namespace == first:
                return namespace, schema
        return None if first is None else (first, "")

    def _free_prefix(self, prefix: str, namespace: str) -> str:
        """Return the prefix, with a number appended if another format has it, or the protocol defines it."""
        begin = _NOT_IN_PREFIX.sub("_", prefix)
        taken = set(self.session.scalars(select(AggregateFormat.prefix)))
        if namespace != OAI_DC_NAMESPACE:
            taken.add(OAI_DC)
        number = 1
        name = begin
        while name in taken:
            number += 1
            name = f"{begin}.{number}"
        return name
