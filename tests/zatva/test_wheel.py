"""The wheel holds what it should, and works in a clean environment without a checkout."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from sqlalchemy import text

from oai import migrations
from oai.database import Database
from zatva import __version__

_ROOT = Path(__file__).parent.parent.parent
_IMPORT_EACH_ALONE = """
import importlib.util, os, pathlib, sys
# What is not ours is imported once, for all: it takes most of the time.
import aiohttp.web, alembic.config, apscheduler.schedulers.asyncio, jinja2, lxml.etree, procrastinate
import pydantic_settings, sqlalchemy.orm
names = []
for part in ("oai", "provider", "harvester", "manager", "web", "zatva"):
    folder = pathlib.Path(importlib.util.find_spec(part).origin).parent
    for file in sorted(folder.rglob("*.py")):
        module = ".".join((part, *file.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        if "alembic" not in module and not module.endswith("__main__"):
            names.append(module)
faulty = []
for name in names:
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
        except BaseException as error:
            print(name, repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        faulty.append(name)
print(len(names) - len(faulty), "of", len(names))
sys.exit(bool(faulty))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
        "--disable-pip-version-check", "--wheel-dir", str(folder), str(_ROOT),
    )  # fmt: skip
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an environment with nothing but the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder)
    _run(
        sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet",
        "--disable-pip-version-check", "--no-compile", f"{wheel}",
    )  # fmt: skip
    return folder / "bin"


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd="/", env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_top_level_names_are_the_parts_of_the_product(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {
        "zatva", "web", "manager", "harvester", "provider", "oai", f"zatva-{__version__}.dist-info",
    }  # fmt: skip
    assert "oai/alembic/env.py" in names
    assert "oai/alembic/__init__.py" not in names


def test_the_command_works_without_a_checkout(
    clean: Path, environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    # An empty database, so that the wheel's own migrations have to make the tables.
    with database.engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    assert _run(str(clean / "zatva"), "--version") == f"zatva {__version__}\n"
    upgraded = _run(
        str(clean / "zatva"), "database", "upgrade",
        ZATVA_DATABASE_URL=environment["ZATVA_DATABASE_URL"], ZATVA_DATA=str(tmp_path),
    )  # fmt: skip
    assert upgraded == f"database: from no tables to {migrations.head()}\n"


@pytest.mark.slow
@pytest.mark.long
def test_every_module_can_be_imported_alone(clean: Path) -> None:
    counted = _run(str(clean / "python"), "-W", "error", "-c", _IMPORT_EACH_ALONE).split()
    assert counted[-3] == counted[-1]
    assert int(counted[-1]) > 50
