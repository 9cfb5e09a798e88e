"""Limits on attempts to sign in, and the browsers in which a user is known.

No name is ever locked by itself: strangers could lock out anybody whose name they know. Attempts are counted
for each user and address together, and for each address. A browser in which the user has signed in before is
counted by itself, so that strangers behind the same proxy cannot delay the user either.
"""

import ipaddress
import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.sections import WebSettings
from web.auth.sessions import hashed, new_token
from web.models import KnownBrowser, SignInAttempt
from web.site.i18n import _

_BROWSER: Final = "browser "
_LONGEST_KEY: Final = 200
_HOUSEHOLD: Final = 64
"""Prefix length in bits: the holder of one IPv6 address controls its whole /64 network."""


class TooManyAttemptsError(UsageError):
    """There were too many attempts to sign in; none was made now."""

    def __init__(self, seconds: float) -> None:
        """Take the seconds to wait."""
        super().__init__(too_many(seconds))
        self.seconds = seconds


def place_of(
    session: Session, *, address: str | None, browser: str | None, user_id: int | None = None
) -> str:
    """Return where an attempt comes from, as `attempt` counts it.

    `browser` is the value of the cookie of a known browser; it counts only for the user `user_id` who has
    signed in there.
    """
    if browser and user_id is not None:
        known = select(KnownBrowser.user_id).where(
            KnownBrowser.token_hash == hashed(browser),
            KnownBrowser.user_id == user_id,
            KnownBrowser.expires > func.now(),
        )
        if session.scalar(known) is not None:
            return f"{_BROWSER}{hashed(browser).hex()}"
    return f"address {_network(address or '')}"


def is_known_browser(place: str) -> bool:
    """Return whether the place is a browser in which the user has signed in before."""
    return place.startswith(_BROWSER)


def code_place(user_id: int) -> str:
    """Return the place at which attempts to enter the user's second factor are counted."""
    return f"code {user_id}"


def attempt(session: Session, settings: WebSettings, *, place: str, user_name: str) -> float | None:
    """Count an attempt; return the seconds to wait if there were too many, or None if it may proceed.

    Commit before checking the password; otherwise simultaneous attempts do not see each other.
    """
    name = _folded(user_name)
    window = timedelta(minutes=settings.sign_in_minutes)
    session.execute(delete(SignInAttempt).where(SignInAttempt.at < func.now() - window))
    # The advisory lock, held until commit, serializes the attempts of one place: otherwise two could each
    # count as the last one allowed.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"sign-in {place}"))))
    limits = (
        (settings.sign_in_tries, (SignInAttempt.key == place, SignInAttempt.user_name == name)),
        (settings.sign_in_tries_per_address, (SignInAttempt.key == place,)),
    )
    waits = [wait for most, which in limits if (wait := _wait(session, settings, most, which)) is not None]
    if waits:
        return max(waits)
    session.add(SignInAttempt(key=place, user_name=name))
    return None


def succeeded(session: Session, *, place: str, user_name: str) -> None:
    """Delete the attempts of a user who has signed in; those for other users at this place stay.

    The caller commits.
    """
    theirs = (SignInAttempt.key == place, SignInAttempt.user_name == _folded(user_name))
    session.execute(delete(SignInAttempt).where(*theirs))


def too_many(seconds: float) -> str:
    """Return the message for a user who must wait."""
    minutes = math.ceil(seconds / 60)
    return _("Too many attempts. Wait %(minutes)s min, then try again.") % {"minutes": minutes}


def remember_browser(session: Session, settings: WebSettings, user_id: int) -> str:
    """Make the user known in a browser; return the value of its cookie. The caller commits."""
    session.execute(delete(KnownBrowser).where(KnownBrowser.expires <= func.now()))
    token = new_token()
    expires = utc_now() + timedelta(days=settings.known_browser_days)
    session.add(KnownBrowser(token_hash=hashed(token), user_id=user_id, expires=expires))
    return token


def _wait(
    session: Session, settings: WebSettings, most: int, which: Iterable[ColumnElement[bool]]
) -> float | None:
    """Return the seconds until enough attempts expire to allow another one; None if it is allowed now."""
    latest = (
        select(func.extract("epoch", func.now() - SignInAttempt.at))
        .where(*which)
        .order_by(SignInAttempt.at.desc())
        .offset(most - 1)
        .limit(1)
    )
    age = session.scalar(latest)
    return None if age is None else max(1.0, settings.sign_in_minutes * 60 - float(age))


def _folded(user_name: str) -> str:
    return user_name.strip().casefold()[:_LONGEST_KEY]


def _network(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_LONGEST_KEY]
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, _HOUSEHOLD), strict=False))
    return str(ip)
