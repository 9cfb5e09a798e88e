"""The folder of XML Schemas that were fetched once, one file for each address.

A file is named after the address: letters, digits, `.`, `-` and `_` stand as they are, everything else as `%`
and the hexadecimal number of the byte (UTF-8). So files can be put there by hand, and copied from one machine
to another. A file is written under another name first, so that processes never see a part of one.
"""

import contextlib
import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

_LONGEST_NAME: Final = 200
_KEPT: Final = 150
_DIGEST: Final = 16


@dataclass(frozen=True, kw_only=True)
class SchemaCache:
    """Schemas by address in a folder, which need not exist yet; safe for many processes at once."""

    folder: Path

    def path(self, url: str) -> Path:
        """Give the file for an address; the name of a long one has its beginning and a digest."""
        name = quote(url, safe="").replace("~", "%7E")
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_KEPT]}-{hashlib.sha256(url.encode()).hexdigest()[:_DIGEST]}"
        return self.folder / name

    def read(self, url: str) -> bytes | None:
        """Give what is kept of an address; None where nothing is. Raises OSError."""
        path = self.path(url)
        # Where capitals do not count in names, the file may be another address's.
        if not self.folder.is_dir() or path not in self.folder.iterdir():
            return None
        return path.read_bytes()

    def write(self, url: str, data: bytes) -> None:
        """Keep a schema. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(url)
        temporary = self.folder / f".{secrets.token_hex(8)}.part"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
