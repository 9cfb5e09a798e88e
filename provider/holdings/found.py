"""A capture that a look-up found, and its fields as CDX lines name them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Final
from uuid import UUID

from oai.errors import UsageError

_UNKNOWN: Final = "unk"
_REVISIT: Final = "warc/revisit"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A capture."""

    id: int
    key: UUID
    url: str
    url_key: str
    archived: datetime
    mime_type: str
    http_status: int | None
    digest: str | None
    length: int | None
    """Bytes of the content, HTTP headers left out, where the file has been read."""
    offset: int
    record_type: str
    access: str
    deleted: bool
    path: str
    """Of the archive file; its name alone while only a CDX file has told of it."""


def _mime(one: Found) -> str:
    if one.record_type == "revisit":
        return _REVISIT
    return one.mime_type if "/" in one.mime_type else _UNKNOWN


FIELDS: Final[Mapping[str, Callable[[Found], str]]] = {
    "urlkey": lambda one: one.url_key,
    "timestamp": lambda one: one.archived.strftime("%Y%m%d%H%M%S"),
    "url": lambda one: one.url,
    "mime": _mime,
    "status": lambda one: str(one.http_status or "-"),
    "digest": lambda one: (one.digest or "-").removeprefix("sha1:"),
    "redirect": lambda _: "-",
    "robotflags": lambda _: "-",
    "length": lambda _: "-",
    "offset": lambda one: str(one.offset),
    "filename": lambda one: PurePath(one.path).name,
}
"""The fields of an eleven-field CDX line, in its order.

The length in such a line is that of the record as it lies in the file, which is not kept here; readers take
the record that begins at the offset.
"""
_SAME_FIELDS: Final = {"original": "url", "mimetype": "mime", "statuscode": "status"}


def field_name(name: str) -> str:
    """The field that is meant by this name, by which other CDX servers may know it.

    Raises UsageError where there is none.
    """
    known = _SAME_FIELDS.get(name, name)
    if known not in FIELDS:
        raise UsageError(f"unknown field {name!r}; the fields are {', '.join(FIELDS)}")
    return known
