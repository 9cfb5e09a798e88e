"""A harvested record that an import is to look at."""

import uuid
from typing import NamedTuple


class Candidate(NamedTuple):
    """A harvested record to look at, and what the tables have of it; a tuple, for many are made."""

    key: uuid.UUID
    identifier: str
    filename: str | None
    datestamp: str
    digest: bytes | None
    bibliographic_id: int | None
    content_digest: bytes | None
    omitted: str | None

    @property
    def file_digest(self) -> str | None:
        """The digest in hexadecimal digits."""
        return None if self.digest is None else self.digest.hex()
