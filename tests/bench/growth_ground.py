"""Environment of the growth benchmark: per run a database without statistics, and a fake repository."""

import contextlib
import os
import resource
import shutil
import subprocess
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
from tests.bench.measuring import served, zatva

_NAMES: Final = {"autovacuum": "off"}
"""Server settings: no table has statistics except those that a command makes itself."""
_HARVESTER: Final = {
    "ZATVA_HARVESTER__BRAKE_DELETIONS": "100",  # no run is held: each is measured to its end
}
_PARENT: Final = 1
_OF_ITSELF: Final = (11, 12)
_OF_ENDED: Final = (13, 14)
"""Fields of /proc/PID/stat: parent, and clock ticks of the process and of its ended children."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Time that something takes."""

    seconds: float
    processor: float
    """Processor seconds of the commands and their processes, this process, and the database server.

    Other load on the machine changes them little.
    """

    @classmethod
    def so_far(cls, postmaster: int) -> Self:
        """Return everything spent until now."""
        own, commands = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = own.ru_utime + own.ru_stime + commands.ru_utime + commands.ru_stime
        return cls(seconds=time.perf_counter(), processor=processor + _server_processor(postmaster))

    def __sub__(self, other: Self) -> Self:
        return type(self)(seconds=self.seconds - other.seconds, processor=self.processor - other.processor)


def _server_processor(postmaster: int) -> float:
    """Return processor seconds of the server's processes, including those that have ended (Linux)."""
    while True:
        with contextlib.suppress(OSError):
            children = _children(postmaster)
            ticks = sum(_times(postmaster, _OF_ITSELF + _OF_ENDED))
            ticks += sum(sum(_times(child, _OF_ITSELF)) for child in children)
            # If the set of children changed meanwhile, an ended process would be counted in neither sum or in
            # both.
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
    """Return the fields after the process name, which may contain spaces (proc(5), "/proc/pid/stat")."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


@dataclass(frozen=True, kw_only=True)
class Place:
    """Shared by all runs: the server with a template database, and the fake repositories."""

    server: URL
    postmaster: int
    fakes: str
    """Base URL of the server of fake repositories."""
    folder: Path


@dataclass(kw_only=True)
class Ground:
    """One run of a chain of steps: its size, database, directory and repository."""

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
        """Environment variables of the commands."""
        return {
            **os.environ,
            **_HARVESTER,
            "ZATVA_DATA": str(self.root / "data"),
            "ZATVA_DATABASE_URL": self.database_url,
        }

    @property
    def settings(self) -> Settings:
        """Settings as the commands read them."""
        return load_settings(data=self.root / "data", database_url=self.database_url)

    def repository(self, **state: object) -> None:
        """Set up or change the repository (`tests.bench.numbered_repository`)."""
        with urllib.request.urlopen(f"{self.url}/state?{urlencode(state)}"):  # noqa: S310 our own server
            pass

    def zatva(self, *arguments: str, codes: Collection[int] = (0,)) -> None:
        """Run a command to its end. Raises SystemExit with its output for an unexpected exit code."""
        log = self.root / "log"
        with log.open("wb") as process_log:
            done = subprocess.run(
                zatva(*arguments),
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=process_log,
                check=False,
                cwd=self.root,
            )
        if done.returncode not in codes:
            raise SystemExit(
                f"zatva {' '.join(arguments)} ended with {done.returncode}\n{log.read_text()[-2000:]}"
            )

    def query(self, statement: str) -> list[tuple[object, ...]]:
        """Return rows of the database."""
        with psycopg.connect(self.database_url.replace("+psycopg", ""), autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that works on as many items as the ground's size."""

    name: str
    work: Callable[[Ground], object]
    before: Callable[[Ground], object] = lambda _ground: None
    """Preparation that is not measured."""

    def measure(self, ground: Ground) -> Spent:
        """Return the cost of the work."""
        self.before(ground)
        begun = Spent.so_far(ground.postmaster)
        self.work(ground)
        return Spent.so_far(ground.postmaster) - begun


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Steps that run one after the other in the same database."""

    name: str
    steps: tuple[Step, ...]
    least: int = 25_000
    """Initial size; smaller if each item is a request or a process."""

    def measure(self, place: Place, size: int, last: str) -> Mapping[str, Spent]:
        """Return the cost of each step by name, up to the named one, in a database made for this run."""
        times = {}
        with _ground(place, size) as ground:
            for step in self.steps:
                times[step.name] = step.measure(ground)
                if step.name == last:
                    break
        return times


@contextlib.contextmanager
def growing_place() -> Iterator[Place]:
    """Run a database server and the fake repositories for the block, in a directory below TMPDIR."""
    with tempfile.TemporaryDirectory(prefix="zatva-growth-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = EmbeddedServer(folder / "server")
        server.acquire()
        try:
            _switch_off_statistics(server.url)
            _make_template(server.url, folder)
            with served("tests.bench.numbered_repository") as (address,):
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
    """Create a database with tables that were never analyzed."""
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
