"""The interface of object stores and HTTP servers to the archive.

Every read names the tag of the object as it was when it was indexed, so that a replaced object never serves
another document's bytes. What can go wrong has one error each, because only an object that is *gone* lets
its documents move to another file:

- `FileNotFoundError`: the server says that there is no such object;
- `PermissionError`: the credentials may not read it;
- `ReplacedError`: there is another object at this URL;
- any other `OSError`: the server cannot be reached, or answers with something else; nothing is known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from provider.storage.places import ObjectUrl


class ReplacedError(OSError):
    """The object at a URL is not the one that was indexed."""


@dataclass(frozen=True, kw_only=True)
class ObjectFacts:
    """What a server says about an object."""

    size: int
    """Bytes."""
    tag: str
    """Opaque: changes whenever the object is replaced. An ETag, or a date of modification."""
    modified: datetime
    """UTC."""


@dataclass(frozen=True, kw_only=True)
class ObjectFolder:
    """What is directly below a prefix."""

    prefixes: Sequence[ObjectUrl]
    """Longer prefixes up to the next slash."""
    objects: Mapping[ObjectUrl, ObjectFacts]


class ObjectClient(Protocol):
    """Reads objects of one bucket or host; may be used by several threads."""

    def facts(self, place: ObjectUrl) -> ObjectFacts:
        """Return size and tag of an object. Raises OSError, see above."""

    def read(self, place: ObjectUrl, begin: int, end: int, tag: str) -> bytes:
        """Return the bytes from `begin` to before `end`, all of them, of the object with this tag.

        Raises OSError, see above.
        """

    def names(self, prefix: ObjectUrl) -> Iterator[ObjectUrl]:
        """Yield the objects below a prefix. Raises OSError, and UsageError where nothing can be listed."""

    def folder(self, prefix: ObjectUrl) -> ObjectFolder:
        """Return what is directly below a prefix. Raises as `names` does."""
