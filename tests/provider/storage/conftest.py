"""Object stores and file servers for the tests of archives behind URLs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from provider.storage import clients
from tests.provider.storage.fault_proxy import Faults, fault_proxy
from tests.provider.storage.file_server import file_server
from tests.provider.storage.object_store import ObjectStore, object_store


@pytest.fixture(autouse=True)
def _brief_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tests of servers that always fail end soon, and others not depend on time."""
    monkeypatch.setattr(clients, "RETRY_SECONDS", 0.2)
    monkeypatch.setattr(clients, "PATIENT_RETRY_SECONDS", 60.0)


@pytest.fixture(scope="session")
def one_store() -> Iterator[ObjectStore]:
    """One store for all tests of a process, because it starts slowly; each test uses its own prefix."""
    with object_store() as store:
        yield store


@pytest.fixture
def store(one_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStore]:
    """The store without faults, with this process allowed to read it."""
    one_store.faults.__dict__.update(Faults(address=one_store.faults.address).__dict__)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name, value in one_store.environment().items():
        monkeypatch.setenv(name, value)
    clients.forget_clients()
    yield one_store
    clients.forget_clients()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[Path, Faults]]:
    """A folder that a server sends, and the proxy before it."""
    folder = tmp_path / "served"
    folder.mkdir()
    with file_server(folder) as port, fault_proxy("127.0.0.1", port) as faults:
        yield folder, faults
