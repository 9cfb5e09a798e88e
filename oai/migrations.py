"""The schema's versions: what the database has, what this version wants, and the way there.

The migrations lie in `alembic/` of a checkout, and inside this package (`oai/alembic`) once installed.
Alembic itself is imported only when something has to be done, for it takes time that every command would pay.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from oai.errors import DatabaseNotReadyError

if TYPE_CHECKING:
    from alembic.config import Config

_UPGRADE_LOCK = 0x7A_61_74_76_61  # "zatva": one upgrade at a time


def folder() -> Path:
    """Where the migrations are."""
    installed = Path(__file__).parent / "alembic"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "alembic"


@cache
def head() -> str:
    """The revision that this version of Zatva works with: that of the newest migration."""
    return max(file.name.partition("_")[0] for file in (folder() / "versions").glob("[0-9]*_*.py"))


def current(connection: Connection) -> str | None:
    """The revision of the connected database, or None where it has no tables of ours yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Bring the tables to this version; give the revisions before and after. Others wait meanwhile."""
    from alembic import command  # noqa: PLC0415 see the module's docstring

    with engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _UPGRADE_LOCK})
        connection.commit()
        before = current(connection)
        try:
            if before != head():
                config = _config()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
                connection.commit()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _UPGRADE_LOCK})
            connection.commit()
    return before, head()


def ensure_current(engine: Engine, *, may_upgrade: bool) -> None:
    """See that the tables are those of this version; empty databases, and ours to change, are upgraded."""
    with engine.connect() as connection:
        found = current(connection)
    if found == head():
        return
    if found is not None and found > head():
        raise DatabaseNotReadyError(
            f"the database is at revision {found}, newer than this version's {head()}; use a newer "
            "version of Zatva"
        )
    if found is not None and not may_upgrade:
        raise DatabaseNotReadyError(
            f"the database is at revision {found}, but this version needs {head()}; run `zatva "
            "database upgrade`"
        )
    upgrade(engine)


def _config() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 see the module's docstring

    config = Config()
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    return config
