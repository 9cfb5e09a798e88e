"""The clients of object stores and HTTP servers, one of each in a process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final

from oai.object_addresses import S3, missing_extra
from provider.storage.objects import ObjectClient
from provider.storage.places import ObjectUrl
from provider.storage.web_files import WebFiles

RETRY_SECONDS: Final = 2.0
"""For how long failing requests are repeated where a thread, a transaction or a person waits."""
PATIENT_RETRY_SECONDS: Final = 30.0
"""The same where files are indexed."""
_PATIENT: Final = ContextVar("_PATIENT", default=False)


@contextmanager
def patiently() -> Iterator[None]:
    """Have the block's clients repeat failing requests for longer."""
    before = _PATIENT.set(True)
    try:
        yield
    finally:
        _PATIENT.reset(before)


def client_of(place: ObjectUrl) -> ObjectClient:
    """Return this process's client for the bucket or host of a URL. Raises UsageError without its library."""
    # A client made before a fork would wait forever: its threads do not exist in the child.
    where = place.bucket if place.is_s3 else ""
    seconds = PATIENT_RETRY_SECONDS if _PATIENT.get() else RETRY_SECONDS
    return _client(os.getpid(), is_s3=place.is_s3, where=where, retry_seconds=seconds)


@cache
def _client(_process: int, *, is_s3: bool, where: str, retry_seconds: float) -> ObjectClient:
    if not is_s3:
        return WebFiles(retry_seconds=retry_seconds)
    try:
        from provider.storage.s3 import S3Bucket  # noqa: PLC0415 needs the extra, and starts threads
    except ModuleNotFoundError:
        raise missing_extra(f"{S3}{where}") from None
    return S3Bucket(where, retry_seconds=retry_seconds)


def forget_clients() -> None:
    """Make the next request use new clients, which read the environment again."""
    _client.cache_clear()
