"""Where growth is measured: for each run a database without statistics, and a fake repository."""

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlencode

import psycopg
from sqlalchemy import URL

from oai.database import open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.keeper import postmaster_pid
from oai.settings import Settings, load_settings
from tests.bench.measuring import zatva

_READY: Final = "repository at "
_NAMES: Final = {"autovacuum": "off"}
"""Settings of the server: so no table has statistics that no command made itself."""
_HARVESTER: Final = {
    "ZATVA_HARVESTER__BRAKE_DELETIONS": "100",  # no run is held: each is measured to its end
}
_PARENT: Final = 1
_OF_ITSELF: Final = (11, 12)
_OF_ENDED: Final = (13, 14)
"""Fields of a process's state: its parent, and clock ticks of itself and of its children that have ended."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What something takes."""

    seconds: float
    processor: float
    """Seconds of a processor: of the commands with all their processes, of this process, and of the database
    server. Others who work on the machine disturb them little."""

    @classmethod
    def so_far(cls, postmaster: int) -> Self:
        """All that was spent until now."""
        own, commands = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = own.ru_utime + own.ru_stime + commands.ru_utime + commands.ru_stime
        return cls(seconds=time.perf_counter(), processor=processor + _server_processor(postmaster))

    def __sub__(self, other: Self) -> Self:
        return type(self)(seconds=self.seconds - other.seconds, processor=self.processor - other.processor)


def _server_processor(postmaster: int) -> float:
    """Seconds of a processor that the server's processes took, those that have ended included (Linux)."""
    while True:
        with contextlib.suppress(OSError):
            children = _children(postmaster)
            ticks = sum(_times(postmaster, _OF_ITSELF + _OF_ENDED))
            ticks += sum(sum(_times(child, _OF_ITSELF)) for child in children)
            # What one took that ended meanwhile would be in neither part, or in both.
            if _children(postmaster) == children:
                return ticks / os.sysconf("SC_CLK_TCK")
        time.sleep(0.01)


def _children(postmaster: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if _fields(int(entry.name))[_PARENT] == str(postmaster):
                found.append(int(entry.name))
    return sorted(found)


def _times(process: int, which: Sequence[int]) -> list[int]:
    fields = _fields(process)
    return [int(fields[number]) for number in which]


def _fields(process: int) -> list[str]:
    """The fields of a process's state behind its name, which may have blanks (proc(5), "/proc/pid/stat")."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


@dataclass(frozen=True, kw_only=True)
class Place:
    """What all runs share: the server with a template of a database, and the fake repositories."""

    server: URL
    postmaster: int
    fakes: str
    """The address of the server of repositories."""
    folder: Path


@dataclass(kw_only=True)
class Ground:
    """One run of a chain of steps: its size, its database, its folder, its repository."""

    size: int
    root: Path
    database_url: str
    fakes: str
    postmaster: int

    @property
    def url(self) -> str:
        """Base URL of this run's repository."""
        return f"{self.fakes}/{self.root.name}/oai"

    @property
    def environment(self) -> Mapping[str, str]:
        """Of the commands."""
        return {
            **os.environ,
            **_HARVESTER,
            "ZATVA_DATA": str(self.root / "data"),
            "ZATVA_DATABASE_URL": self.database_url,
        }

    @property
    def settings(self) -> Settings:
        """As the commands read them."""
        return load_settings(data=self.root / "data", database_url=self.database_url)

    def repository(self, **state: object) -> None:
        """Set up or change the repository (`tests.bench.numbered_repository`)."""
        with urllib.request.urlopen(f"{self.url}/state?{urlencode(state)}"):  # noqa: S310 our own server
            pass

    def zatva(self, *arguments: str, codes: Collection[int] = (0,)) -> None:
        """Run a command to its end. Raises SystemExit, with what it said, for another exit code."""
        log = self.root / "log"
        with log.open("wb") as said:
            done = subprocess.run(
                zatva(*arguments),
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=said,
                check=False,
                cwd=self.root,
            )
        if done.returncode not in codes:
            raise SystemExit(
                f"zatva {' '.join(arguments)} ended with {done.returncode}\n{log.read_text()[-2000:]}"
            )

    def query(self, statement: str) -> list[tuple[object, ...]]:
        """Rows of the database."""
        with psycopg.connect(self.database_url.replace("+psycopg", ""), autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that works on as many things as the ground's size is."""

    name: str
    work: Callable[[Ground], object]
    before: Callable[[Ground], object] = lambda _ground: None
    """What is done first and is not measured."""

    def measure(self, ground: Ground) -> Spent:
        """What the work takes."""
        self.before(ground)
        begun = Spent.so_far(ground.postmaster)
        self.work(ground)
        return Spent.so_far(ground.postmaster) - begun


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Steps that follow on one another in the same database."""

    name: str
    steps: tuple[Step, ...]
    least: int = 25_000
    """The smallest size to begin from; smaller where each thing is a request or a process."""

    def measure(self, place: Place, size: int, last: str) -> Mapping[str, Spent]:
        """What each step takes by its name, up to the one that is named, in a database made for this run."""
        times = {}
        with _ground(place, size) as ground:
            for step in self.steps:
                times[step.name] = step.measure(ground)
                if step.name == last:
                    break
        return times


@contextlib.contextmanager
def growing_place() -> Iterator[Place]:
    """A server and the fake repositories, for the block; both are in a folder that TMPDIR names."""
    with tempfile.TemporaryDirectory(prefix="zatva-growth-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = EmbeddedServer(folder / "server")
        server.acquire()
        try:
            _switch_off_statistics(server.url)
            _make_template(server.url, folder)
            with _fakes() as address:
                postmaster = postmaster_pid(cluster_folder(folder / "server"))
                assert postmaster is not None
                yield Place(server=server.url, postmaster=postmaster, fakes=address, folder=folder)
        finally:
            server.release()


def _switch_off_statistics(server: URL) -> None:
    with _maintenance(server) as connection:
        for name, value in _NAMES.items():
            connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
        connection.execute("SELECT pg_reload_conf()")


def _make_template(server: URL, folder: Path) -> None:
    """A database with tables, in which no row was ever counted."""
    with _maintenance(server) as connection:
        connection.execute("CREATE DATABASE template_growth")
    with open_database(
        load_settings(data=folder / "template", database_url=_address(server, "template_growth"))
    ):
        pass


@contextlib.contextmanager
def _ground(place: Place, size: int) -> Iterator[Ground]:
    root = Path(tempfile.mkdtemp(prefix="run-", dir=place.folder))
    root.chmod(0o755)
    name = root.name.replace("-", "_").lower()
    with _maintenance(place.server) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE template_growth'.encode())
    try:
        yield Ground(
            size=size,
            root=root,
            database_url=_address(place.server, name),
            fakes=place.fakes,
            postmaster=place.postmaster,
        )
    finally:
        with _maintenance(place.server) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
        shutil.rmtree(root)


def _maintenance(server: URL) -> psycopg.Connection:
    url = server.set(drivername="postgresql", database="postgres")
    return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)


def _address(server: URL, database: str) -> str:
    return server.set(database=database).render_as_string(hide_password=False)


@contextlib.contextmanager
def _fakes() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.bench.numbered_repository"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield process.stderr.readline().removeprefix(_READY).strip()
        finally:
            process.terminate()
