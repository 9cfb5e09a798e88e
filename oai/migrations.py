"""The schema's versions: the database's revision, the required revision, and the upgrade.

The migrations are in `alembic/` of a checkout, and inside this package (`oai/alembic`) once installed.
Alembic is imported only when an upgrade is necessary, because the import would slow down every command.
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
    """Return the folder of the migrations."""
    installed = Path(__file__).parent / "alembic"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "alembic"


@cache
def head() -> str:
    """Return the revision that this version of Zatva works with: that of the newest migration."""
    return max(file.name.partition("_")[0] for file in (folder() / "versions").glob("[0-9]*_*.py"))


def current(connection: Connection) -> str | None:
    """Return the revision of the connected database, or None if it has no tables of Zatva yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


def upgrade(engine: Engine) -> tuple[str | None, str]:
    """Upgrade the tables to this version; return the revisions before and after. Concurrent upgrades wait."""
    from alembic import command  # noqa: PLC0415 see the module's docstring

    with engine.connect() as connection:
        # The lock belongs to the session, not to the transaction, so it survives the commits of the
        # migrations.
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
    """Check that the tables are of this version; upgrade if the database is empty or `may_upgrade` is set."""
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
