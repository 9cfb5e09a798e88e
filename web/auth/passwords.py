"""Passwords, stored as Argon2id. Hashing is slow on purpose: servers call these functions by `Hashing`."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final, TypeVar

from aiohttp import web
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from oai.errors import UsageError
from web.auth.attempts import TooManyAttemptsError
from web.site.i18n import _, ngettext

_LONGEST: Final = 1000
"""Maximum length in characters; hashing time grows with length."""
_ESTIMATED: Final = 72
"""Characters of a password whose strength is estimated; the time for it grows with the square."""
_WEAKEST: Final = 3
"""Least score of zxcvbn, of 0 to 4: it takes more than 10^8 guesses, too many for guessing online."""

_MOST_OF_PLACE: Final = 5
_RETRY_SECONDS: Final = 1.0
_Result = TypeVar("_Result")


class Hashing:
    """Hashes passwords in two threads: one for known browsers and signed-in users, one for all others.

    Each hash takes 64 MB and a tenth of a second, so that strangers' attempts would otherwise take the
    memory and processors, and delay everybody. One place has at most 5 attempts in progress.
    """

    def __init__(self) -> None:
        self._threads = {is_known: asyncio.Semaphore(1) for is_known in (True, False)}
        self._of_place: Counter[str] = Counter()

    @contextmanager
    def attempt_from(self, place: str) -> Iterator[None]:
        """Count an attempt during the block. Raises TooManyAttemptsError if too many are in progress."""
        if self._of_place[place] >= _MOST_OF_PLACE:
            raise TooManyAttemptsError(_RETRY_SECONDS)
        self._of_place[place] += 1
        try:
            yield
        finally:
            self._of_place[place] -= 1
            self._of_place += Counter()  # drops zeros

    async def run(self, work: Callable[[], _Result], *, is_known: bool) -> _Result:
        """Return what the work returns, in the thread of known callers or in that of all others."""
        async with self._threads[is_known]:
            return await asyncio.to_thread(work)


HASHING: Final = web.AppKey("hashing", Hashing)


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
