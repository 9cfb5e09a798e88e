"""Passwords: kept as Argon2id, which takes long on purpose: call these in a thread."""

from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from oai.errors import UsageError
from web.words import _

_LONGEST: Final = 1000
"""Characters; hashing takes longer the longer the password is."""


def hash_password(password: str, *, least: int, user_name: str) -> str:
    """What the database keeps of the password.

    Raises UsageError for one that has fewer than `least` characters or over 1000, or is easily guessed.
    """
    check_password(password, least=least, user_name=user_name)
    return _hasher().hash(password)


def check_password(password: str, *, least: int, user_name: str) -> None:
    """Raises UsageError for a password that `hash_password` would not take."""
    if len(password) < least:
        raise UsageError(
            _("The password has %(found)s characters; use at least %(least)s.")
            % {"found": len(password), "least": least}
        )
    if len(password) > _LONGEST:
        raise UsageError(
            _("The password has %(found)s characters; use at most %(most)s.")
            % {"found": len(password), "most": _LONGEST}
        )
    if len(set(password)) < 5 or password.casefold() == user_name.casefold():  # noqa: PLR2004 `aaaaaaaaaaaa`
        raise UsageError(_("The password is easy to guess; choose another, such as four random words."))


def password_fits(kept: str | None, password: str) -> bool:
    """Whether it is the password; takes as long where there is none, so that nobody learns who has one."""
    try:
        _hasher().verify(kept or _nobodys(), password[: _LONGEST + 1])
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


@cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


@cache
def _nobodys() -> str:
    return _hasher().hash("the password of no account")
