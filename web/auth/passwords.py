"""Passwords, stored as Argon2id. Hashing is slow on purpose: call these functions in a thread."""

from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from oai.errors import UsageError
from web.site.i18n import _, ngettext

_LONGEST: Final = 1000
"""Maximum length in characters; hashing time grows with length."""
_ESTIMATED: Final = 72
"""Characters of a password whose strength is estimated; the time for it grows with the square."""
_WEAKEST: Final = 3
"""Least score of zxcvbn, of 0 to 4: it takes more than 10^8 guesses, too many for guessing online."""


def hash_password(password: str, *, least: int, user_name: str) -> str:
    """Return the hash to store for the password.

    Raises UsageError if it has fewer than `least` or more than 1000 characters, or is easily guessed.
    """
    check_password(password, least=least, user_name=user_name)
    return hasher().hash(password)


def check_password(password: str, *, least: int, user_name: str) -> None:
    """Raise UsageError for a password that `hash_password` would reject."""
    if len(password) < least:
        raise UsageError(
            ngettext(
                "The password has %(found)s character; use at least %(least)s.",
                "The password has %(found)s characters; use at least %(least)s.",
                len(password),
            )
            % {"found": len(password), "least": least}
        )
    if len(password) > _LONGEST:
        raise UsageError(
            _("The password has %(found)s characters; use at most %(most)s.")
            % {"found": len(password), "most": _LONGEST}
        )
    if _score(password, user_name) < _WEAKEST:
        raise UsageError(_("The password is easy to guess; choose another, such as four random words."))


def password_fits(kept: str | None, password: str) -> bool:
    """Return whether the password matches; takes equally long without a hash, to hide who has a password."""
    try:
        hasher().verify(kept or dummy_hash(), password[: _LONGEST + 1])
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None


def _score(password: str, user_name: str) -> int:
    """Estimate how hard the password is to guess; the user's and the product's names are easy to guess."""
    # Imported here: its lists of common passwords take as long to load as all the rest of a command.
    from zxcvbn import zxcvbn  # noqa: PLC0415

    found = zxcvbn(password[:_ESTIMATED], user_inputs=[user_name, "zatva"])
    score: int = found["score"]
    return score


@cache
def hasher() -> PasswordHasher:
    """Return what hashes passwords and checks them, at Argon2's recommended cost."""
    return PasswordHasher()


@cache
def dummy_hash() -> str:
    """Return a hash that is checked where there is none, so that the answer takes as long."""
    return hasher().hash("the password of no account")
