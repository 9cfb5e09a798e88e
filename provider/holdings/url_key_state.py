"""The URL keys of this index: how they treat `www.` (`WwwRule`), and whether all documents have one.

Documents, take-downs and titles store keys and ranges of keys, which mean something else under another rule.
So the rule is stored with them, every process uses the stored one, and the setting `provider.www_rule` can
choose it only while nothing has a key.
"""

import logging
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from oai.errors import SettingsError
from provider.holdings.urlkeys import WwwRule

FILL_KEYS: Final = "run `zatva provider reindex-keys` to complete the URL keys"
"""What to do while documents lack their keys."""
# NULL sorts last: this reads one entry of the index. A test for NULL would read the whole table if the
# planner's statistics were those from before the fill.
HAS_ALL: Final = """
SELECT coalesce((SELECT url_key IS NOT NULL FROM document ORDER BY url_key DESC NULLS FIRST LIMIT 1), true)
"""
FINISHED: Final = "SELECT finished IS NOT NULL FROM url_key_fill"
_EARLIER: Final = "SELECT to_regclass('ix_document_url') IS NOT NULL"
_LOCK: Final = 0x7A_61_74_77_77_77  # "zatwww"
"""Held shared by transactions that store keys, and exclusively when the rule is set."""
_STORED: Final = "SELECT www_rule FROM url_key_fill"
_SET: Final = "UPDATE url_key_fill SET www_rule = :rule"
_HAS_KEYS: Final = """
SELECT EXISTS (SELECT FROM document) OR EXISTS (SELECT FROM takedown_range)
    OR EXISTS (SELECT FROM title_segment)
"""

_log = logging.getLogger(__name__)


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


def keys_complete(session: Session) -> bool:
    """Return whether every document has its key, so that look-ups can use the index on keys.

    False also after a process of an earlier version has added documents to a filled archive.
    """
    return all(session.scalar(text(statement)) for statement in (FINISHED, HAS_ALL))


def unused_indexes(session: Session) -> tuple[str, ...]:
    """Return the indexes that this version does not use: the one on URLs, if all documents have keys."""
    return ("ix_document_url",) if session.scalar(text(_EARLIER)) and keys_complete(session) else ()


def warn_if_incomplete(session: Session) -> None:
    """Log a warning if look-ups cannot use the keys."""
    if not keys_complete(session):
        _log.warning("look-ups compare the spellings of URLs, not their keys; %s", FILL_KEYS)
