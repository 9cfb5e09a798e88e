"""Signed resumption tokens that contain everything needed for the next page (OAI-PMH 2.0, section 3.5).

The server stores nothing, so a token is valid on any instance, after a restart, and more than once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from itsdangerous import BadData, URLSafeSerializer

from oai.errors import ProtocolError
from oai.vocabulary import ErrorCode, Verb

PURPOSE: Final = "resumption token"
"""The purpose under which `oai.signing` stores the signing key."""

_VERSION: Final = 1
_LONGEST: Final = 4096
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Position:
    """The last item of a page, after which the next page begins."""

    datestamp: datetime
    id: int | UUID
    """Its row, or its public key: gaps between the rows' ids would show how many documents are withheld."""


@dataclass(frozen=True, kw_only=True)
class ItemList:
    """A list of records or headers, and the position in it."""

    verb: Verb
    metadata_prefix: str
    set_spec: str | None
    from_: datetime | None
    until: datetime
    """Upper bound (UTC), fixed at the first request."""
    after: Position | None = None
    cursor: int = 0
    """Items on previous pages."""
    size: int | None = None
    """Items in the whole list, if known."""


@dataclass(frozen=True, kw_only=True)
class SetList:
    """A list of sets, and the position in it."""

    after: str | None = None
    """The last setSpec of the previous page."""
    cursor: int = 0


class Tokens:
    """Writes tokens with the first key and reads those of all; `lifetime` is how long they are valid."""

    def __init__(self, keys: Sequence[bytes], lifetime: timedelta) -> None:
        self._serializers = [
            URLSafeSerializer(
                key, salt=PURPOSE, signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256}
            )
            for key in keys
        ]
        self.lifetime = lifetime
        self._last: tuple[str, Mapping[str, Any]] | None = None

    def write(self, state: ItemList | SetList, now: datetime) -> str:
        """Return a token for the page in `state`: URL-safe characters, valid for the lifetime from `now`."""
        fields = _item_fields(state) if isinstance(state, ItemList) else _set_fields(state)
        whole = {"v": _VERSION, "e": _number(now + self.lifetime), **fields}
        return _text(self._serializers[0].dumps(whole))

    def is_signed(self, token: str) -> bool:
        """Return whether one of the keys has signed the token, whatever is in it."""
        return self._signed(token) is not None

    def read_items(self, token: str, verb: Verb, now: datetime) -> ItemList:
        """Return the list of records or headers that the token continues.

        Raises ProtocolError badResumptionToken if it is altered, expired, or of another version or verb.
        """
        fields = self._fields(token, verb, now)
        return ItemList(
            verb=verb,
            metadata_prefix=fields["p"],
            set_spec=fields["s"],
            from_=None if fields["f"] is None else _moment(fields["f"]),
            until=_moment(fields["u"]),
            after=Position(datestamp=_moment(fields["d"]), id=_row(fields["i"])) if "d" in fields else None,
            cursor=fields["c"],
            size=fields["n"],
        )

    def read_sets(self, token: str, now: datetime) -> SetList:
        """Return the list of sets that the token continues; raises as `read_items` does."""
        fields = self._fields(token, Verb.LIST_SETS, now)
        return SetList(after=fields["a"], cursor=fields["c"])

    def _fields(self, token: str, verb: Verb, now: datetime) -> Mapping[str, Any]:
        fields = self._signed(token)
        if fields is None:
            raise bad_token("the token was not issued by this repository or was altered")
        if fields["v"] != _VERSION:
            raise bad_token("the token was issued by another version of this repository")
        if fields["b"] != verb:
            raise bad_token(f"the token belongs to {fields['b']}, not to {verb}")
        if _moment(fields["e"]) < now:
            raise bad_token("the token has expired")
        return fields

    def _signed(self, token: str) -> Mapping[str, Any] | None:
        """Return the token's fields if it is authentic to the last character."""
        if len(token) > _LONGEST:
            return None
        if self._last is not None and self._last[0] == token:
            return self._last[1]  # `is_signed` comes before the token is read
        for serializer in self._serializers:
            try:
                fields: Mapping[str, Any] = serializer.loads(token)
            except (BadData, ValueError):
                continue
            # Base64 leaves spare bits at its end, so that several texts may encode the same signature.
            if _text(serializer.dumps(fields)) != token:
                return None
            self._last = (token, fields)
            return fields
        return None


def bad_token(reason: str) -> ProtocolError:
    """Return the error for an invalid token, with the advice to start the list again."""
    return ProtocolError(
        ErrorCode.BAD_RESUMPTION_TOKEN, f"{reason}; start the list again without resumptionToken"
    )


def _item_fields(state: ItemList) -> dict[str, Any]:
    fields = {
        "b": state.verb,
        "p": state.metadata_prefix,
        "s": state.set_spec,
        "f": None if state.from_ is None else _number(state.from_),
        "u": _number(state.until),
        "c": state.cursor,
        "n": state.size,
    }
    if state.after is not None:
        fields |= {"d": _number(state.after.datestamp), "i": _written(state.after.id)}
    return fields


def _set_fields(state: SetList) -> dict[str, Any]:
    return {"b": Verb.LIST_SETS, "a": state.after, "c": state.cursor}


def _written(row: int | UUID) -> int | str:
    return row.hex if isinstance(row, UUID) else row


def _row(written: int | str) -> int | UUID:
    return UUID(hex=written) if isinstance(written, str) else written


def _number(moment: datetime) -> int:
    """Return microseconds since 1970, which is exact for every time in the database."""
    return (moment - _EPOCH) // _MICROSECOND


def _moment(number: int) -> datetime:
    return _EPOCH + number * _MICROSECOND


def _text(serialized: str | bytes) -> str:
    return serialized if isinstance(serialized, str) else serialized.decode()
