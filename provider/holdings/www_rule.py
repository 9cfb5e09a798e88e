"""The rule by which all URL keys of this index treat `www.` (`provider.holdings.urlkeys.WwwRule`).

Documents, take-downs and titles store keys and ranges of keys, which mean something else under another rule.
So the rule is stored with them, every process uses the stored one, and the setting `provider.www_rule` can
choose it only while nothing has a key.
"""

from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from oai.errors import SettingsError
from provider.holdings.urlkeys import WwwRule

_LOCK: Final = 0x7A_61_74_77_77_77  # "zatwww"
"""Held shared by transactions that store keys, and exclusively when the rule is set."""
_STORED: Final = "SELECT www_rule FROM url_key_fill"
_SET: Final = "UPDATE url_key_fill SET www_rule = :rule"
_HAS_KEYS: Final = """
SELECT EXISTS (SELECT FROM document) OR EXISTS (SELECT FROM takedown_range)
    OR EXISTS (SELECT FROM title_segment)
"""


def www_rule(session: Session) -> WwwRule:
    """Return the rule of this index."""
    return WwwRule(session.execute(text(_STORED)).scalar_one())


def hold_rule(session: Session) -> WwwRule:
    """Return the rule of this index, which stays the same until this transaction, which stores keys, ends."""
    session.execute(select(func.pg_advisory_xact_lock_shared(_LOCK)))
    return www_rule(session)


def settle_rule(session: Session, wanted: WwwRule) -> None:
    """Make the rule of the settings that of the index if nothing has a key yet. Commits.

    Raises SettingsError if the index has keys by another rule.
    """
    if www_rule(session) is wanted:
        return
    session.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    if session.scalar(text(_HAS_KEYS)):
        raise SettingsError(
            f"provider.www_rule is {wanted.value!r}, but this index has URL keys by the rule "
            f"{www_rule(session).value!r}; use that value, or index the archive into an empty database"
        )
    session.execute(text(_SET), {"rule": wanted.value})
    session.commit()
