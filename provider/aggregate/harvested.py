"""The harvester's tables that the aggregate reads, by name, because they are a public interface.

The UIUC tables and the change feed are open to other readers. They are declared here without the harvester's
code, on which the provider does not depend. They are only read.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    DateTime,
    Integer,
    LargeBinary,
    Text,
    Uuid,
    column,
    table,
)

REPOSITORY: Final = table(
    "oai_repository",
    column("repository_id", Integer),
    column("repository_name", Text),
    column("base_url", Text),
    column("base_dir", Text),
)
RECORD: Final = table(
    "oai_record",
    column("record_id", BigInteger),
    column("repository_id", Integer),
    column("metadata_prefix", Text),
    column("identifier", Text),
    column("identifier_key", Uuid),
    column("filename", Text),
    column("harvest_time", DateTime(timezone=True)),
    column("datestamp", Text),
    column("status", Text),
    column("digest", LargeBinary),
)
SET: Final = table(
    "oai_set", column("repository_id", Integer), column("set_spec", Text), column("set_name", Text)
)
SET_MAPPING: Final = table("oai_set_mapping", column("record_id", BigInteger), column("set_spec", Text))
METADATA_FORMAT: Final = table(
    "oai_metadata_format",
    column("prefix_id", Integer),
    column("metadata_prefix", Text),
    column("metadata_schema", Text),
    column("metadata_namespace", Text),
)
PREFIX_MAPPING: Final = table(
    "oai_prefix_mapping", column("repository_id", Integer), column("prefix_id", Integer)
)
CHANGE: Final = table(
    "oai_change",
    column("transaction_id", BigInteger),
    column("change_id", BigInteger),
    column("repository_id", Integer),
    column("identifier", Text),
    column("metadata_prefix", Text),
)
HISTORY: Final = table("oai_history", column("history_id", BigInteger), column("repository_id", Integer))
RECURRING_JOB: Final = table(
    "oai_recurring_job", column("repository_id", Integer), column("normalize_file_path", Text)
)

DELETED: Final = "deleted"
"""`oai_record.status` of a deleted record."""
