"""Runs the migrations over the connection that `oai.migrations` hands in, or over the settings' database."""

import contextlib
from collections.abc import Iterator

from alembic import context
from sqlalchemy import Connection

import harvester.bibliographic.models
import harvester.harvest.models
import harvester.models
import harvester.rule_lab.models
import harvester.store.models
import manager.models
import manager.notices.models
import oai.audit
import oai.owners
import provider.aggregate.models
import provider.clients.models
import provider.export.models
import provider.indexing.models
import provider.models
import provider.titles.models
import web.models
from oai.database import open_database
from oai.models import Base
from oai.settings import load_settings

_PARTS = (  # imported for their tables
    harvester.bibliographic.models,
    harvester.models,
    harvester.rule_lab.models,
    harvester.harvest.models,
    harvester.store.models,
    manager.models,
    manager.notices.models,
    provider.aggregate.models,
    provider.clients.models,
    provider.export.models,
    provider.indexing.models,
    provider.models,
    provider.titles.models,
    oai.audit,
    oai.owners,
    web.models,
)


def ours(name: str | None, kind: str, _parents: object) -> bool:
    """Whether a table found in the database is ours to compare; the task queue keeps its own."""
    return not (kind == "table" and name is not None and name.startswith("procrastinate_"))


@contextlib.contextmanager
def connected() -> Iterator[Connection]:
    """The connection that was handed in, or one of our own for the command `alembic`."""
    given = context.config.attributes.get("connection")
    if given is not None:
        yield given
        return
    with open_database(load_settings(), check_tables=False) as database, database.engine.connect() as own:
        yield own
        own.commit()


with connected() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_name=ours,
        transaction_per_migration=True,
        on_version_apply=context.config.attributes.get("applied"),
    )
    with context.begin_transaction():
        context.run_migrations()
