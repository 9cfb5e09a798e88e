"""Objects in a store that speaks S3, by the library obstore (extra `s3`).

Credentials come from where the tools of Amazon look for them: the variables AWS_…, a profile in
~/.aws/credentials and ~/.aws/config, a web identity, or the machine's own role. None are stored.
"""

import configparser
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

import obstore
from obstore.exceptions import (
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from provider.storage.objects import ObjectFacts, ReplacedError
from provider.storage.places import ObjectUrl

_CONNECT: Final = timedelta(seconds=5)
_ANSWER: Final = timedelta(seconds=60)
"""For one request with its whole answer, of at most 8 MiB."""
_RETRIES: Final = 4
_RETRY_FOR: Final = timedelta(seconds=30)
_FRESH: Final = timedelta(minutes=5)
"""How long the contents of a profile file are used: other programs renew them there."""
_STATUS: Final = re.compile(r"status code: (\d{3})")
_NO_SUCH_KEY: Final = "<Code>NoSuchKey</Code>"
_EMPTY_OBJECT: Final = "416"
_FORBIDDEN: Final = frozenset({"401", "403"})


class S3Bucket:
    """The objects of a bucket."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        profile = _profile()
        options: dict[str, Any] = {}
        endpoint = _endpoint(profile)
        if endpoint is not None:
            options["endpoint"] = endpoint
        if region := _region(profile):
            options["region"] = region
        if "AWS_ACCESS_KEY_ID" not in os.environ and "aws_access_key_id" in profile:
            options["credential_provider"] = _credentials
        self._store = S3Store(
            bucket,
            client_options={
                # Only where the administrator names an address without TLS.
                "allow_http": (endpoint or "").startswith("http://"),
                "connect_timeout": _CONNECT,
                "timeout": _ANSWER,
            },
            retry_config={"max_retries": _RETRIES, "retry_timeout": _RETRY_FOR},
            **options,
        )

    def facts(self, place: ObjectUrl) -> ObjectFacts:
        """Return size and tag. By GET, because the answer to HEAD does not say *what* does not exist."""
        try:
            found = obstore.get(self._store, place.key, options={"range": (0, 1)}).meta
        except (BaseError, OSError) as error:
            if _status(error) != _EMPTY_OBJECT:
                _refuse(place, error)
            found = self._empty(place)
        if found["e_tag"] is None:
            raise OSError(f"{place}: the store gives no ETag, so a replaced object could not be noticed")
        return ObjectFacts(
            size=found["size"], tag=found["e_tag"], modified=found["last_modified"].astimezone(UTC)
        )

    def read(self, place: ObjectUrl, begin: int, end: int, tag: str) -> bytes:
        """Return a range of the object with this tag."""
        try:
            answer = obstore.get(self._store, place.key, options={"range": (begin, end), "if_match": tag})
            content = bytes(answer.bytes())
        except (BaseError, OSError) as error:
            _refuse(place, error)
        if len(content) != end - begin:
            raise OSError(f"{place}: received {len(content):,} of {end - begin:,} bytes")
        return content

    def names(self, prefix: ObjectUrl) -> Iterator[ObjectUrl]:
        """Yield the objects whose keys begin with the prefix."""
        try:
            for page in self._store.list(prefix.key):
                for one in page:
                    yield ObjectUrl(f"s3://{self._bucket}/{one['path']}")
        except (BaseError, OSError) as error:
            _refuse(prefix, error)

    def _empty(self, place: ObjectUrl) -> Any:  # noqa: ANN401 the library's type exists for type checkers only
        try:
            return self._store.head(place.key)
        except (BaseError, OSError) as error:
            _refuse(place, error)


def _refuse(place: ObjectUrl, error: Exception) -> NoReturn:
    """Raise the error of `provider.storage.objects` for one of the library.

    A bucket or an address that does not exist answers 404, too; only "NoSuchKey" says that an object is
    gone.
    """
    said = str(error).partition("\n")[0][:300]
    if isinstance(error, FileNotFoundError) and _NO_SUCH_KEY in str(error):
        raise FileNotFoundError(f"{place}: there is no such object") from None
    if isinstance(error, PreconditionError):
        raise ReplacedError(
            f"{place}: the object was replaced after it was indexed; index it again"
        ) from None
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _status(error) in _FORBIDDEN:
        raise PermissionError(
            f"{place}: access denied; check the credentials (AWS_…, ~/.aws): {said}"
        ) from None
    if isinstance(error, InvalidPathError):
        raise OSError(f"{place}: the key is not valid: {said}") from None
    raise OSError(f"{place}: the object store does not answer as it should: {said}") from None


def _status(error: Exception) -> str:
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
    variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    given = (os.environ.get(name) for name in variables)
    return next(filter(None, given), None) or profile.get("endpoint_url")


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
