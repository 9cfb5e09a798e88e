"""A data folder keeps its server when it is moved or its permissions change."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from oai import keeper
from oai.embedded import EmbeddedServer, cluster_folder
from oai.errors import DatabaseNotReadyError
from tests.commands import results

_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server may be outside the data folder")


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A data folder that is private only because of its parent folder; its server has a table."""
    with tempfile.TemporaryDirectory() as closed:
        folder = Path(closed) / "data"
        _use(folder, "CREATE SCHEMA apart; CREATE TABLE apart.kept ()")
        cluster = cluster_folder(folder)
        assert cluster.is_relative_to(folder) == (os.geteuid() != 0)
        yield folder
        shutil.rmtree(cluster)


@pytest.fixture
def data(made: Path) -> Iterator[Path]:
    """The same folder, made private again and with its server stopped after each test."""
    yield made
    made.parent.chmod(0o700)
    keeper.stop(cluster_folder(made))


def _use(data: Path, statement: str = "SELECT FROM apart.kept") -> None:
    server = EmbeddedServer(data, going_seconds=0)
    try:
        server.acquire()
        url = server.url.set(drivername="postgresql").render_as_string()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())
    finally:
        server.release()


def _note(data: Path) -> Path:
    (note,) = data.glob("postgres.place")
    return note


@pytest.mark.parametrize("noted", [True, False])
def test_a_data_folder_keeps_its_server_when_its_parent_becomes_accessible(
    data: Path, *, noted: bool
) -> None:
    cluster = cluster_folder(data)
    if not noted:
        _note(data).unlink()  # as older versions left it
    data.parent.chmod(0o711)
    _use(data)
    assert cluster_folder(data) == cluster
    assert _note(data).read_text().startswith("postgres" if cluster.parent == data else str(cluster))


def test_a_moved_data_folder_keeps_its_server(data: Path) -> None:
    moved = data.rename(data.with_name("moved"))
    _use(moved)
    _use(moved.rename(data))


def test_a_missing_server_folder_is_reported_and_no_new_one_created(data: Path) -> None:
    cluster = cluster_folder(data)
    away = cluster.rename(cluster.with_name(f"{cluster.name}-away"))
    with pytest.raises(DatabaseNotReadyError) as raised:
        _use(data)
    assert f"is in {cluster}, which does not exist" in str(raised.value)
    assert not cluster.exists()
    away.rename(cluster)
    _use(data)


@_ROOT
def test_a_copy_of_a_data_folder_does_not_use_the_server_of_the_first(data: Path) -> None:
    copy = data.with_name("copy")
    shutil.copytree(data, copy)
    with pytest.raises(DatabaseNotReadyError, match=f"{copy} is a copy of {data}"):
        _use(copy)
    _note(copy).unlink()
    assert cluster_folder(copy) != cluster_folder(data)


def test_doctor_names_the_folder_of_the_server(data: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ZATVA_")}
    findings = results({**environment, "ZATVA_DATA": str(data)}, "doctor")
    (found,) = [one["found"] for one in findings if one["check"] == "database"]
    assert found.endswith(f"(embedded, in {cluster_folder(data)})")
