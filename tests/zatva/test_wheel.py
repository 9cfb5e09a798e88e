"""The wheel holds what it should, and works in a clean environment without a checkout."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from sqlalchemy import text

from oai import migrations
from oai.database import Database
from zatva import __version__

_ROOT = Path(__file__).parent.parent.parent
_IMPORT_EACH_ALONE = """
import importlib.util, os, pathlib, sys
# What is not ours is imported once, for all: it takes most of the time.
import aiohttp.web, alembic.config, jinja2, lxml.etree, procrastinate
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


def _environment(folder: Path, wheel: Path, *options: str) -> Path:
    """Install the wheel into a new environment; returns the folder of its programs."""
    venv.create(folder)
    _run(
        sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet",
        "--disable-pip-version-check", "--no-compile", *options, f"{wheel}",
    )  # fmt: skip
    return folder / "bin"


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of an environment with nothing but the wheel and what pip installs for it."""
    return _environment(tmp_path_factory.mktemp("clean"), wheel)


@pytest.fixture(scope="module")
def linked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with links to the packages that the wheel requires, which are installed here already."""
    folder = tmp_path_factory.mktemp("linked")
    programs = _environment(folder, wheel, "--no-deps")
    (place,) = folder.glob("lib/python*/site-packages")
    (metadata,) = place.glob("zatva-*.dist-info")
    for package in _required(Distribution.at(metadata), set()):
        for file in package.files or ():
            link, target = place / file.parts[0], Path(str(package.locate_file(file.parts[0])))
            if file.parts[0] not in {"..", "__pycache__"} and not link.exists():
                link.symlink_to(target)
    return programs


def _required(
    package: Distribution, seen: set[str], extras: frozenset[str] = frozenset()
) -> Iterator[Distribution]:
    """Yield each package that the package requires with these extras, directly or not."""
    for line in package.requires or ():
        wanted = Requirement(line)
        if wanted.marker and not any(wanted.marker.evaluate({"extra": one}) for one in {"", *extras}):
            continue
        name = f"{re.sub(r'[-_.]+', '-', wanted.name).lower()}{sorted(wanted.extras)}"
        if name not in seen:
            seen.add(name)
            found = distribution(wanted.name)
            assert wanted.specifier.contains(found.version, prereleases=True), (line, found.version)
            yield found
            yield from _required(found, seen, frozenset(wanted.extras))


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd="/", env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_has_only_the_packages_of_the_product(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {
        "zatva", "web", "manager", "harvester", "provider", "oai", f"zatva-{__version__}.dist-info",
    }  # fmt: skip
    assert "oai/alembic/env.py" in names
    assert "oai/alembic/__init__.py" not in names


@pytest.mark.parametrize("place", ["linked", pytest.param("clean", marks=pytest.mark.long)])
def test_the_command_works_without_a_checkout(
    place: str,
    request: pytest.FixtureRequest,
    environment: dict[str, str],
    database: Database,
    tmp_path: Path,
) -> None:
    program = str(request.getfixturevalue(place) / "zatva")
    # An empty database, so that the wheel's own migrations have to make the tables.
    with database.engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    assert _run(program, "--version") == f"zatva {__version__}\n"
    upgraded = _run(
        program, "database", "upgrade",
        ZATVA_DATABASE_URL=environment["ZATVA_DATABASE_URL"], ZATVA_DATA=str(tmp_path),
    )  # fmt: skip
    assert upgraded == f"database: from no tables to {migrations.head()}\n"


@pytest.mark.slow
@pytest.mark.long
def test_every_module_can_be_imported_alone(clean: Path) -> None:
    counted = _run(str(clean / "python"), "-W", "error", "-c", _IMPORT_EACH_ALONE).split()
    assert counted[-3] == counted[-1]
    assert int(counted[-1]) > 50
