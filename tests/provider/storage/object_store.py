"""An object store for tests: moto's server, which checks signatures, behind a proxy that adds faults.

Moto is in a separate environment, because it needs other versions of libraries than Zatva; `script/test`
makes it.
"""

import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import obstore
import pytest
from obstore.store import S3Store

from tests.provider.storage.fault_proxy import Faults, fault_proxy

BUCKET: Final = "web-archive"
REGION: Final = "us-east-1"
_MOTO: Final = Path(__file__).parents[3] / ".venv" / "tools" / "moto" / "bin" / "moto_server"
_UNSIGNED: Final = 4
"""Requests that moto accepts from anybody: those that make the account."""
_POLICY: Final = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'


@dataclass
class ObjectStore:
    """A bucket, and the proxy in front of it."""

    faults: Faults
    key: str
    secret: str
    store: Any
    """A client of the test's own, which asks moto directly."""

    def put(self, name: str, content: bytes) -> str:
        """Store an object, and return its URL."""
        obstore.put(self.store, name, content)
        return f"s3://{BUCKET}/{name}"

    def get(self, name: str) -> bytes:
        """Return an object's content."""
        return bytes(obstore.get(self.store, name).bytes())

    def delete(self, name: str) -> None:
        """Remove an object."""
        obstore.delete(self.store, name)

    def environment(self) -> dict[str, str]:
        """Return the environment variables with the address of the store and credentials."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.faults.address,
        }


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run moto and the proxy, with a bucket and a user with all permissions in it."""
    if not _MOTO.exists():
        pytest.skip("moto is not installed; script/test does it")
    server = subprocess.Popen(
        [_MOTO, "--host", "127.0.0.1", "--port", "0"],
        env={"INITIAL_NO_AUTH_ACTION_COUNT": str(_UNSIGNED), "PYTHONUNBUFFERED": "1"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        port = _port(server)
        address = f"http://127.0.0.1:{port}"
        key, secret = _user(address)
        _ask(address, "s3", f"/{BUCKET}", method="PUT")
        store = S3Store(
            BUCKET, endpoint=address, access_key_id=key, secret_access_key=secret, region=REGION,
            client_options={"allow_http": True},
        )  # fmt: skip
        with fault_proxy("127.0.0.1", port) as faults:
            yield ObjectStore(faults=faults, key=key, secret=secret, store=store)
    finally:
        server.terminate()
        server.communicate(timeout=30)


def _port(server: "subprocess.Popen[str]") -> int:
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
            return int(found[1])
    pytest.fail(f"moto ended with {server.wait()}")


def _user(address: str) -> tuple[str, str]:
    _ask(address, "iam", "/", Action="CreateUser", UserName="reader")
    policy = {"UserName": "reader", "PolicyName": "all", "PolicyDocument": _POLICY}
    _ask(address, "iam", "/", Action="PutUserPolicy", **policy)
    made = _ask(address, "iam", "/", Action="CreateAccessKey", UserName="reader")
    key, secret = (re.search(f"<{name}>(.*?)</{name}>", made) for name in ("AccessKeyId", "SecretAccessKey"))
    assert key is not None
    assert secret is not None
    return key[1], secret[1]


def _ask(address: str, service: str, path: str, method: str = "POST", **form: str) -> str:
    # Moto takes the service from the signature's scope; it does not check these requests.
    scope = f"AWS4-HMAC-SHA256 Credential=x/20260101/{REGION}/{service}/aws4_request"
    body = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(  # noqa: S310 our own address
        address + path, data=body, method=method, headers={"Authorization": scope}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 our own address
        text: str = answer.read().decode()
        return text
