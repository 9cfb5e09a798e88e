"""Objects in an S3-compatible store (`oai.s3`)."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any, Final, NoReturn

import obstore
from obstore.exceptions import BaseError, PreconditionError

from oai.object_addresses import S3
from oai.s3 import as_os_error, http_status, open_bucket
from provider.storage.objects import ObjectFacts, ObjectFolder, ReplacedError
from provider.storage.places import ObjectUrl

_ERRORS: Final = (BaseError, OSError, ValueError)
_NO_SUCH_KEY: Final = "<Code>NoSuchKey</Code>"
_EMPTY_OBJECT: Final = "416"
_REPLACED: Final = "{place}: the object was replaced after it was indexed; index it again"
_WEAK: Final = "W/"
_LAST: Final = "\U0010ffff"
"""Sorts after all other characters of a key."""


class S3Bucket:
    """The objects of a bucket."""

    def __init__(self, bucket: str, *, retry_seconds: float) -> None:
        self._bucket = bucket
        self._store = open_bucket(bucket, retry_seconds=retry_seconds)

    def facts(self, place: ObjectUrl) -> ObjectFacts:
        """Return size and tag. By GET, because the answer to HEAD does not say *what* does not exist."""
        try:
            found = obstore.get(self._store, place.key, options={"range": (0, 1)}).meta
        except _ERRORS as error:
            if http_status(error) != _EMPTY_OBJECT:
                _refuse(place, error)
            found = self._empty(place)
        tag: str = found["e_tag"] or _WEAK
        if tag.startswith(_WEAK):
            raise OSError(
                f"{place}: the store gives no strong ETag, so a replaced object could not be noticed"
            )
        return ObjectFacts(size=found["size"], tag=tag, modified=found["last_modified"].astimezone(UTC))

    def read(self, place: ObjectUrl, begin: int, end: int, tag: str) -> bytes:
        """Return a range of the object with this tag."""
        try:
            answer = obstore.get(self._store, place.key, options={"range": (begin, end), "if_match": tag})
            content = bytes(answer.bytes())
        except _ERRORS as error:
            _refuse(place, error)
        # A store that ignores the condition sends the new object, with its own tag.
        if answer.meta["e_tag"] != tag:
            raise ReplacedError(_REPLACED.format(place=place))
        if len(content) != end - begin:
            raise OSError(f"{place}: received {len(content):,} of {end - begin:,} bytes")
        return content

    def names(self, prefix: ObjectUrl) -> Iterator[ObjectUrl]:
        """Yield the objects whose keys begin with the prefix.

        The library takes any answer without the mark of a next page for the last one, so the listing is
        continued after its last key until that gives no more keys.
        """
        last, found = "", self._keys(prefix)
        while found:
            yield from (ObjectUrl(f"{S3}{self._bucket}/{key}") for key in found)
            last = max(found)
            found = [key for key in self._keys(prefix, offset=last) if key > last]

    def folder(self, prefix: ObjectUrl) -> ObjectFolder:
        """Return the prefixes and objects up to the next slash."""
        try:
            found = self._store.list_with_delimiter(prefix.key)
        except _ERRORS as error:
            _refuse(prefix, error)
        keys = [f"{key.rstrip('/')}/{_LAST}" for key in found["common_prefixes"]]
        keys += [one["path"] for one in found["objects"]]
        if keys and any(key > max(keys) for key in self._keys(prefix, offset=max(keys))):
            raise OSError(f"{prefix}: the object store lists only some of the objects; try again")
        return ObjectFolder(
            prefixes=[
                ObjectUrl(f"{S3}{self._bucket}/{key.rstrip('/')}/") for key in found["common_prefixes"]
            ],
            objects={
                self._url(one): ObjectFacts(
                    size=one["size"], tag=one["e_tag"] or "", modified=one["last_modified"].astimezone(UTC)
                )
                for one in found["objects"]
            },
        )

    def _keys(self, prefix: ObjectUrl, *, offset: str | None = None) -> list[str]:
        """Return the keys after `offset` that one listing gives."""
        try:
            return [one["path"] for page in self._store.list(prefix.key, offset=offset) for one in page]
        except _ERRORS as error:
            _refuse(prefix, error)

    def _url(self, one: Any) -> ObjectUrl:  # noqa: ANN401 the library's type exists for type checkers only
        return ObjectUrl(f"{S3}{self._bucket}/{one['path']}")

    def _empty(self, place: ObjectUrl) -> Any:  # noqa: ANN401 the library's type exists for type checkers only
        try:
            return self._store.head(place.key)
        except _ERRORS as error:
            _refuse(place, error)


def _refuse(place: ObjectUrl, error: Exception) -> NoReturn:
    """Raise the error of `provider.storage.objects` for one of the library.

    A bucket or an address that does not exist answers 404, too; only "NoSuchKey" says that an object is
    gone.
    """
    if isinstance(error, FileNotFoundError) and _NO_SUCH_KEY in str(error):
        raise FileNotFoundError(f"{place}: there is no such object") from None
    if isinstance(error, PreconditionError):
        raise ReplacedError(_REPLACED.format(place=place)) from None
    raise as_os_error(str(place), error) from None
