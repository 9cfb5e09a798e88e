"""Tries to sign in, counted by address and by user in the database, so that all processes count together."""

import ipaddress
import math
from datetime import timedelta
from typing import Final

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from oai.sections import WebSettings
from web.models import SignInAttempt
from web.words import _

_LONGEST_KEY: Final = 200
_HOUSEHOLD: Final = 64
"""Bits: whoever has one IPv6 address has all of its network."""


def attempt(session: Session, settings: WebSettings, *, address: str | None, user_name: str) -> float | None:
    """Count a try, and give the seconds to wait where there were too many; None where it may go on.

    Commit before the password is looked at, or several tries at the same moment count as none.
    """
    window = timedelta(minutes=settings.sign_in_minutes)
    session.execute(delete(SignInAttempt).where(SignInAttempt.at < func.now() - window))
    waits = []
    for key in _keys(address, user_name):
        # Of one key, one after the other: else two would each be the last one that is allowed.
        session.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"sign-in {key}"))))
        wait = _wait(session, key, settings)
        if wait is not None:
            waits.append(wait)
    if waits:
        return max(waits)
    session.add_all([SignInAttempt(key=key) for key in _keys(address, user_name)])
    return None


def succeeded(session: Session, *, address: str | None, user_name: str) -> None:
    """Forget the tries of a user who has signed in. The caller commits."""
    session.execute(delete(SignInAttempt).where(SignInAttempt.key.in_(_keys(address, user_name))))


def too_many(seconds: float) -> str:
    """What is told to whoever has to wait so long."""
    minutes = math.ceil(seconds / 60)
    return _("Too many attempts. Wait %(minutes)s min, then try again.") % {"minutes": minutes}


def _wait(session: Session, key: str, settings: WebSettings) -> float | None:
    """Seconds until the oldest of as many tries as are allowed counts no more."""
    latest = (
        select(func.extract("epoch", func.now() - SignInAttempt.at))
        .where(SignInAttempt.key == key)
        .order_by(SignInAttempt.at.desc())
        .offset(settings.sign_in_tries - 1)
        .limit(1)
    )
    age = session.scalar(latest)
    return None if age is None else max(1.0, settings.sign_in_minutes * 60 - float(age))


def _keys(address: str | None, user_name: str) -> list[str]:
    keys = [f"user {user_name.strip().casefold()}"[:_LONGEST_KEY]]
    return [f"address {_network(address)}", *keys] if address else keys


def _network(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_LONGEST_KEY]
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, _HOUSEHOLD), strict=False))
    return str(ip)
