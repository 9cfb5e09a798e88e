"""Passwords and keys of the settings, or of the files that those name."""

from pathlib import Path

from pydantic import SecretStr

from manager.notices.refusals import NotSentError


def secret_of(given: SecretStr | None, file: Path | None, *, setting: str) -> str | None:
    """The secret; None where none is set. Raises NotSentError where the file cannot be read or is empty."""
    if file is None:
        return given.get_secret_value() if given is not None else None
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSentError(
            f"setting {setting}: {file}: {error}; make the file readable for the manager's user"
        ) from None
    if not lines or not lines[0].strip():
        raise NotSentError(f"setting {setting}: {file}: its first line is empty; write the secret there")
    return lines[0].strip()
