"""Files with secrets: made so that only this account can read them, and found where others can."""

import os
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from oai.settings import Settings

_MODE: Final = 0o600
_SECRETS: Final = (("database_url",), ("mail", "password"), ("webhooks", "secret"))


def open_private(file: Path) -> BinaryIO:
    """Open a file for writing that only this account can read, also if it existed with another mode.

    Raises OSError for a symbolic link: whoever placed it would choose the file that is replaced.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, _MODE)
    # Before the first byte, and before older content would be replaced by secrets.
    os.fchmod(descriptor, _MODE)
    os.ftruncate(descriptor, 0)
    return os.fdopen(descriptor, "wb")


def exposed_files(settings: Settings) -> Iterator[Path]:
    """Yield the absolute paths of the settings' files with secrets that other accounts can read."""
    config = settings.toml_file
    files = [settings.mail.password_file, settings.webhooks.secret_file]
    if config is not None and _has_secrets(config):
        files.append(config)
    yield from filter(_others_can_read, (file.absolute() for file in files if file is not None))


def how_to_close(file: Path) -> str:
    """Return the command that makes a file private."""
    return f"chmod o= {file}"


def _has_secrets(config: Path) -> bool:
    settings = tomllib.loads(config.read_text(encoding="utf-8"))
    return any(_value(settings, names) for names in _SECRETS)


def _value(settings: object, names: tuple[str, ...]) -> object:
    for name in names:
        settings = settings.get(name) if isinstance(settings, dict) else None
    return settings


def _others_can_read(file: Path) -> bool:
    try:
        readable = file.stat().st_mode & stat.S_IROTH
        return bool(readable) and all(folder.stat().st_mode & stat.S_IXOTH for folder in file.parents)
    except OSError:
        return False  # whoever needs the file reports why it cannot be read
