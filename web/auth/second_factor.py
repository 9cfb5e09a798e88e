"""Second factor: time-based one-time passwords (TOTP, RFC 6238) and recovery codes. The caller commits."""

import hmac
import re
import secrets
from base64 import b32encode
from typing import Final

from pyotp import TOTP, random_base32
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from oai.datestamps import utc_now
from oai.errors import UsageError
from web.auth.attempts import code_place, succeeded
from web.auth.sessions import hashed
from web.auth.users import locked_user
from web.models import RecoveryCode, User
from web.site.i18n import _

RECOVERY_CODE: Final = "recovery code"
_ISSUER: Final = "Zatva"
_STEP_SECONDS: Final = 30
_TOLERANCE: Final = (-1, 0, 1)
"""Steps before and after the present one that are accepted, because clocks differ (RFC 6238, section 5.2)."""
_CODES: Final = 8
_CODE_BYTES: Final = 20
_GROUP: Final = 4
_NOT_IN_A_CODE: Final = re.compile(r"[\s-]+")
_LONGEST: Final = 100


def proposed_secret(session: Session, user_id: int) -> str:
    """Return the secret with which the user sets up an app: a new one, or the one proposed before.

    Raises UsageError if the user has a second factor already.
    """
    user = locked_user(session, user_id)
    if user.totp_since is not None:
        raise UsageError(_("The second factor is already set up; turn it off first."))
    if user.totp_secret is None:
        user.totp_secret = random_base32()
    return user.totp_secret


def app_address(user_name: str, secret: str, installation: str) -> str:
    """Return the `otpauth:` URI that authenticator apps read from a QR code."""
    return TOTP(secret).provisioning_uri(name=user_name, issuer_name=f"{_ISSUER} {installation}".strip())


def enable(session: Session, user_id: int, code: str) -> list[str]:
    """Turn the second factor on; return the recovery codes, of which only hashes are kept.

    Raises UsageError if the code is not that of the proposed secret.
    """
    user = locked_user(session, user_id)
    if user.totp_secret is None or user.totp_since is not None or not _is_codes_turn(user, code):
        raise UsageError(
            _("The code is not right. Enter the six digits that the app shows now; check the device's clock.")
        )
    user.totp_since = utc_now()
    return renew_codes(session, user_id)


def disable(session: Session, user_id: int) -> None:
    """Turn the second factor off; delete the secret, the recovery codes and the attempts to guess codes."""
    user = locked_user(session, user_id)
    succeeded(session, place=code_place(user_id), user_name=user.name)
    user.totp_secret = user.totp_since = user.totp_step = None
    session.execute(delete(RecoveryCode).where(RecoveryCode.user_id == user_id))


def renew_codes(session: Session, user_id: int) -> list[str]:
    """Return new recovery codes; earlier ones are no longer accepted."""
    session.execute(delete(RecoveryCode).where(RecoveryCode.user_id == user_id))
    codes = [_new_code() for _index in range(_CODES)]
    session.add_all([RecoveryCode(code_hash=_code_hash(code), user_id=user_id) for code in codes])
    return codes


def codes_left(session: Session, user_id: int) -> int:
    """Return the number of recovery codes that are not used yet."""
    unused = (RecoveryCode.user_id == user_id, RecoveryCode.used.is_(None))
    return session.scalars(select(func.count()).select_from(RecoveryCode).where(*unused)).one()


def accepted_factor(session: Session, user_id: int, code: str) -> str | None:
    """Accept a code once; return what it is, `app` or `recovery code`, or None if it is not right."""
    # The row is locked until commit: two requests with one code must not both be let in.
    user = locked_user(session, user_id)
    if user.totp_since is None:
        return None
    if _is_codes_turn(user, code):
        return "app"
    used = (
        update(RecoveryCode)
        .where(
            RecoveryCode.code_hash == _code_hash(code),
            RecoveryCode.user_id == user_id,
            RecoveryCode.used.is_(None),
        )
        .values(used=func.now())
        .returning(RecoveryCode.user_id)
    )
    return RECOVERY_CODE if session.scalar(used) is not None else None


def _is_codes_turn(user: User, code: str) -> bool:
    """Return whether it is a code of now that was not used before, and note it as used."""
    given = _NOT_IN_A_CODE.sub("", code[:_LONGEST])
    app = TOTP(user.totp_secret or "")
    present = int(utc_now().timestamp()) // _STEP_SECONDS
    for step in (present + late for late in _TOLERANCE):
        is_later = user.totp_step is None or step > user.totp_step
        if hmac.compare_digest(app.generate_otp(step).encode(), given.encode(errors="replace")) and is_later:
            user.totp_step = step
            return True
    return False


def _new_code() -> str:
    text = b32encode(secrets.token_bytes(_CODE_BYTES)).decode().lower()
    return "-".join(text[begin : begin + _GROUP] for begin in range(0, len(text), _GROUP))


def _code_hash(code: str) -> bytes:
    return hashed(_NOT_IN_A_CODE.sub("", code[:_LONGEST]).lower())
