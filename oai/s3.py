"""Buckets of S3-compatible stores, by the library obstore (extra `s3`): connecting, writing, errors.

Credentials come from where the tools of Amazon look for them: the variables AWS_…, a profile in
~/.aws/credentials and ~/.aws/config, a web identity, or the machine's own role. None are stored.
"""

import configparser
import contextlib
import io
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final, cast
from urllib.request import proxy_bypass

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from oai.errors import RemoteError
from oai.object_addresses import S3
from oai.reach import proxy_variables

_CONNECT: Final = timedelta(seconds=5)
_ANSWER: Final = timedelta(seconds=60)
"""For one request with its whole answer, of at most 8 MB."""
_RETRY_SECONDS: Final = 30.0
_MOST_RETRIES: Final = 1000
"""More than there is time for."""
_FIRST_PAUSE: Final = timedelta(seconds=0.2)
_LONGEST_PAUSE: Final = 1 / 6
"""Of the time for retries."""
_FRESH: Final = timedelta(minutes=5)
"""How long the contents of a profile file are used: other programs renew them there."""
_STATUS: Final = re.compile(r"status code: (\d{3})")
_CAUSES: Final = tuple(
    map(
        re.compile,
        (
            r"<(Code)>([^<]{1,100})</Code>",
            r"<(Message)>([^<]{1,300})</Message>",
            r"\b(Connect),\s+(\w+),",
            r"(InvalidCertificate)\((?:\s*\w+\()*\s*(\w+)",
            r'\b(message|error): "([^"\n]{1,200})"',
        ),
    )
)
"""In the text of an error, of which only the first line is for readers."""
_ANSWER_OF_STORE: Final = "<Code>"
_EXPIRED: Final = re.compile(r"<Code>(?:ExpiredToken|InvalidToken)</Code>")
_OTHER_RANGE: Final = re.compile(r"non-partial response|Requested \d+\.\.\d+, got \d")
_REQUEST: Final = re.compile(r"\b(https?)://([^/\s]+)")
_FORBIDDEN: Final = frozenset({"401", "403"})
_ENDPOINT: Final = re.compile(
    r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?(?:/[!-~]*)?", re.ASCII | re.IGNORECASE
)
"""Of other addresses, the library ends the thread instead of raising an error."""
_LAST_PORT: Final = 65_535
_PART_BYTES: Final = 8 * 1024**2
_PIECE_BYTES: Final = 1024**2


def open_bucket(bucket: str, *, retry_seconds: float = _RETRY_SECONDS) -> S3Store:
    """Return a client for a bucket, with the credentials of this process's environment.

    Raises OSError if they, or the address of the store, are not valid. The client repeats a failing request
    for up to `retry_seconds`.
    """
    retry_for = timedelta(seconds=retry_seconds)
    for name in [name for name, value in os.environ.items() if name.startswith("AWS_") and not value]:
        del os.environ[name]  # as for the tools of Amazon, an empty variable is not set
    profile = _profile()
    options: dict[str, Any] = {}
    endpoint = _endpoint(profile)
    if endpoint is not None:
        options["endpoint"] = endpoint
    if region := _region(profile):
        options["region"] = region
    if "AWS_ACCESS_KEY_ID" not in os.environ and "aws_access_key_id" in profile:
        options["credential_provider"] = _credentials
    try:
        return S3Store(
            bucket,
            client_options={
                # Only where the administrator names an address without TLS.
                "allow_http": (endpoint or "").lower().startswith("http://"),
                "connect_timeout": _CONNECT,
                "timeout": _ANSWER,
            },
            retry_config={
                "max_retries": _MOST_RETRIES,
                "retry_timeout": retry_for,
                "backoff": {
                    "init_backoff": _FIRST_PAUSE,
                    "max_backoff": max(_FIRST_PAUSE, _LONGEST_PAUSE * retry_for),
                    "base": 3,
                },
            },
            **options,
        )
    except BaseError as error:
        raise as_os_error(f"{S3}{bucket}", error) from None


@contextlib.contextmanager
def writing(bucket: str, key: str) -> Iterator[BinaryIO]:
    """Write an object in parts. It exists once the block has ended, and not at all if the block fails.

    Raises RemoteError if the store refuses it or does not answer.
    """
    parts = _Parts(bucket, key)
    with io.BufferedWriter(parts, _PIECE_BYTES) as file:
        yield cast("BinaryIO", file)
    # Parts of an upload that is never completed are the store's to clear away.
    parts.complete()


class _Parts(io.RawIOBase):
    """An upload as a file."""

    def __init__(self, bucket: str, key: str) -> None:
        self._place = f"{S3}{bucket}/{key}"
        try:
            store = open_bucket(bucket)
        except OSError as error:
            raise RemoteError(str(error)) from None
        with self._meaning():
            self._upload = obstore.open_writer(store, key, buffer_size=_PART_BYTES)

    def complete(self) -> None:
        """Make the object of what was written."""
        with self._meaning():
            self._upload.close()

    @contextlib.contextmanager
    def _meaning(self) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            raise RemoteError(str(as_os_error(self._place, error))) from None

    def writable(self) -> bool:
        """Return True, as every output does."""
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 any buffer
        """Add to the upload; return the number of bytes."""
        with self._meaning():
            self._upload.write(bytes(data))
        return len(data)


def as_os_error(place: str, error: Exception) -> OSError:
    """Return what an error of the library means: access is denied, the key is bad, or nothing is known."""
    text = str(error)
    message = text.partition("\n")[0].partition(": <")[0][:300]
    causes = [f"{found[1]}: {found[2]}" for cause in _CAUSES if (found := cause.search(text))]
    if new := [cause for cause in causes if cause.partition(": ")[2] not in message]:
        message += f" ({'; '.join(new)})"
    whose = f"the object store{_proxy(text)}"
    if (
        isinstance(error, PermissionDeniedError | UnauthenticatedError)
        or http_status(error) in _FORBIDDEN
        or _EXPIRED.search(text)
    ):
        denied = f"access denied by {whose}; check the credentials (AWS_…, ~/.aws)"
        return PermissionError(f"{place}: {denied}: {message}")
    # The library raises ValueError for a prefix that is no path, such as one with `..`.
    if isinstance(error, InvalidPathError | ValueError):
        return OSError(f"{place}: the key is not valid: {message}")
    does_not = "answer range requests as S3 does" if _OTHER_RANGE.search(text) else "answer as it should"
    return OSError(f"{place}: {whose} does not {does_not}: {message}")


def _proxy(text: str) -> str:
    """Return words for the proxy that the failed request went through; empty if the store has answered."""
    found = _REQUEST.search(text)
    if found is None or _ANSWER_OF_STORE in text or proxy_bypass(found[2]):
        return ""
    names = [name for name in proxy_variables() if name.lower() in {f"{found[1]}_proxy", "all_proxy"}]
    return f" or the proxy in {', '.join(names)}" if names else ""


def http_status(error: Exception) -> str:
    """Return the HTTP status in an error of the library; empty if it has none."""
    found = _STATUS.search(str(error))
    return found[1] if found else ""


def _file(variable: str, name: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / ".aws" / name)


def _profile() -> dict[str, str]:
    """Return the settings of the profile in AWS_PROFILE, or `default`, from both files."""
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    found: dict[str, str] = {}
    for variable, file, section in (
        ("AWS_CONFIG_FILE", "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", name),
    ):
        parser = configparser.RawConfigParser()
        parser.read(_file(variable, file), encoding="utf-8")
        if parser.has_section(section):
            found |= dict(parser.items(section))
    return found


def _endpoint(profile: dict[str, str]) -> str | None:
    """Return the address of the store, if it is set. Raises OSError for one that is not an address."""
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    given = (os.environ.get(name) for name in variables)
    endpoint = next(filter(None, given), None) or profile.get("endpoint_url")
    if endpoint:
        found = _ENDPOINT.fullmatch(endpoint)
        if found is None or int(found["port"] or 0) > _LAST_PORT:
            # Without the value, which may have credentials.
            raise OSError(
                "AWS_ENDPOINT_URL, or endpoint_url of the profile, is not the address of an object store; "
                "write http://HOST:PORT or https://HOST, without credentials"
            )
    return endpoint or None


def _region(profile: dict[str, str]) -> str | None:
    given = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return given or profile.get("region")


def _credentials() -> Any:  # noqa: ANN401 the library's type exists for type checkers only
    """Return the credentials of the profile, as the files have them now."""
    profile = _profile()
    return {
        "access_key_id": profile.get("aws_access_key_id", ""),
        "secret_access_key": profile.get("aws_secret_access_key", ""),
        "token": profile.get("aws_session_token"),
        "expires_at": datetime.now(UTC) + _FRESH,
    }
