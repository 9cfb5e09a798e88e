"""Files with secrets: made so that only this account can read them, and found where others can."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import SecretStr

from oai.errors import SettingsError
from oai.settings import Settings, read_table

_MODE: Final = 0o600
_SECRETS: Final = (
    ("database_url",),
    ("mail", "password"),
    ("webhooks", "secret"),
    ("openid", "client_secret"),
)


def open_private(file: Path) -> BinaryIO:
    """Open a file for writing that only this account can read, also if it existed with another mode.

    Raises OSError for a symbolic link: whoever placed it would choose the file that is replaced.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, _MODE)
    # Before the first byte, and before older content would be replaced by secrets.
    os.fchmod(descriptor, _MODE)
    os.ftruncate(descriptor, 0)
    return os.fdopen(descriptor, "wb")


def read_secret(given: SecretStr | None, file: Path | None, *, setting: str) -> str | None:
    """Return a secret from a setting or the first line of a file; None if neither is set.

    `setting` names the setting with the file. Raises SettingsError if the file is unreadable or empty.
    """
    if file is None:
        return given.get_secret_value() if given is not None else None
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"setting {setting}: {file}: {error}; make the file readable for the user that runs Zatva"
        ) from None
    if not lines or not lines[0].strip():
        raise SettingsError(f"setting {setting}: {file}: its first line is empty; write the secret there")
    return lines[0].strip()


def exposed_files(settings: Settings) -> Iterator[Path]:
    """Yield the absolute paths of the settings' files with secrets that other accounts can read."""
    config = settings.toml_file
    files = [
        settings.mail.password_file,
        settings.webhooks.secret_file,
        settings.openid.client_secret_file,
        *(service.url_file for service in settings.manager.services),
    ]
    if config is not None and _has_secrets(config):
        files.append(config)
    yield from filter(_others_can_read, (file.absolute() for file in files if file is not None))


def how_to_close(file: Path) -> str:
    """Return the command that makes a file private."""
    return f"chmod o= {file}"


def _has_secrets(config: Path) -> bool:
    settings = read_table(config)
    services = _value(settings, ("manager", "services"))
    typed = services if isinstance(services, list) else []
    return any(_value(settings, names) for names in _SECRETS) or any(_value(one, ("url",)) for one in typed)


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
