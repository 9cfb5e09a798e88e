"""Repairs of broken records that a person has chosen for a repository; without a choice, nothing is repaired.

A repair changes the bytes of a record that cannot be parsed, and only if the record can be parsed then. The
record gets an `about` container that names the repairs, so that every later reader knows.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html.entities import name2codepoint
from itertools import combinations
from typing import Final

from harvester.reading.salvage import Piece, SplitAnswer, cut, escaped_ampersands, identifiers, only_child
from oai.errors import MalformedXmlError
from oai.failures import CodedText, Failure, FailureCode
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.vocabulary import OAI_NAMESPACE, REPAIRED_NAMESPACE, Verb

_ENTITY: Final = re.compile(rb"&([A-Za-z][A-Za-z0-9]*);")
_OF_XML: Final = frozenset({"amp", "lt", "gt", "quot", "apos"})
_CONTROL: Final = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]"
    rb"|&#(?:0*(?:[0-8]|1[124-9]|2[0-9]|3[01])|[xX]0*(?:[0-8bcBC]|[eE]|1[0-9a-fA-F]|[fF]));"
)
# What begins a tag, a comment, CDATA or an instruction; anything else is a sign in a text.
_BARE_ANGLE: Final = re.compile(rb"<(?![A-Za-z_/!?])")
_CLOSING: Final = re.compile(rb"</([A-Za-z_][\w.-]*:)?record\s*>\s*\Z")


class Repair(StrEnum):
    """A repair; its value is stored and written into repaired records."""

    AMPERSAND = "ampersand"
    """`&` that begins no reference becomes `&amp;`."""
    ENTITY = "entity"
    """An entity of HTML that XML does not know, such as `&nbsp;`, becomes its character."""
    CONTROL = "control"
    """Control characters, and references to them, are removed."""
    ANGLE = "angle"
    """`<` that begins no tag becomes `&lt;`."""
    WINDOWS_1250 = "windows-1250"
    """Bytes that are not UTF-8 are read as Windows-1250."""
    WINDOWS_1252 = "windows-1252"


def _entities(raw: bytes) -> bytes:
    def character(found: re.Match[bytes]) -> bytes:
        name = found[1].decode("ascii")
        code = None if name in _OF_XML else name2codepoint.get(name)
        return found[0] if code is None else f"&#{code};".encode()

    return _ENTITY.sub(character, raw)


def _from(encoding: str) -> Callable[[bytes], bytes]:
    def decode(raw: bytes) -> bytes:
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError:
            try:
                return raw.decode(encoding).encode()
            except UnicodeDecodeError:
                return raw  # not this encoding either
        return raw

    return decode


_WORK: Final[Mapping[Repair, Callable[[bytes], bytes]]] = {
    # In this order: bytes become characters first, and a control character may split a reference.
    Repair.WINDOWS_1250: _from("windows-1250"),
    Repair.WINDOWS_1252: _from("windows-1252"),
    Repair.CONTROL: lambda raw: _CONTROL.sub(b"", raw),
    Repair.ENTITY: _entities,
    Repair.AMPERSAND: escaped_ampersands,
    Repair.ANGLE: lambda raw: _BARE_ANGLE.sub(b"&lt;", raw),
}


@dataclass(frozen=True, kw_only=True)
class Repaired:
    """A record after repairs."""

    raw: bytes
    repairs: tuple[Repair, ...]
    """Those that changed something."""


def repair(raw: bytes, repairs: Iterable[Repair]) -> Repaired:
    """Apply the repairs to the bytes of a record, whether or not it can be parsed then."""
    chosen, done = frozenset(repairs), []
    for one, work in _WORK.items():
        if one in chosen:
            changed = work(raw)
            if changed != raw:
                raw = changed
                done.append(one)
    return Repaired(raw=raw, repairs=tuple(done))


def propose(raw: bytes) -> Repaired | None:
    """Return the fewest repairs after which a broken record can be parsed; None if there are none.

    `raw` is the record as it was received, in an answer of any prefix.
    """
    around = SplitAnswer(
        before=f'<OAI-PMH xmlns="{OAI_NAMESPACE}"><ListRecords>'.encode(),
        after=b"</ListRecords></OAI-PMH>",
        response_date="",
    )
    for count in range(1, 4):
        for chosen in combinations(Repair, count):
            found = repair(raw, chosen)
            if len(found.repairs) == count and _is_readable(around, found.raw):
                return found
    return None


def repaired_piece(
    cut_up: SplitAnswer, piece: Piece, verb: Verb, limits: AnswerLimits, repairs: Sequence[Repair]
) -> Repaired | None:
    """Return a broken piece of an answer after repairs, with its mark; None if it still cannot be parsed."""
    if piece.fault or not repairs:
        return None
    found = repair(piece.raw, repairs)
    if not found.repairs or not _is_readable(cut_up, found.raw, verb, limits):
        return None
    return Repaired(raw=_marked(found), repairs=found.repairs)


def note_of(found: Repaired) -> str:
    """Return the warning for a repaired record."""
    named = next(identifiers(found.raw), "?")
    repaired = Failure(code=FailureCode.RECORD_REPAIRED, facts={"identifier": named})
    return CodedText(f"record {named!r} was repaired on arrival: {', '.join(found.repairs)}", repaired)


@dataclass(frozen=True, kw_only=True)
class RepairedAnswer:
    """An answer after repairs of its records."""

    body: bytes
    notes: Sequence[str] = ()
    """One for each repaired record."""
    grown: Sequence[tuple[int, int]] = ()
    """Of each repaired record, its end in the answer as received and the bytes it has grown by."""

    def received_offset(self, offset: int) -> int:
        """Return where a byte that was not repaired is in the answer as received."""
        for end, growth in self.grown:
            if offset < end + growth:
                break
            offset -= growth
        return offset


def repaired_answer(
    body: bytes, verb: Verb, repairs: Sequence[Repair], limits: AnswerLimits
) -> RepairedAnswer:
    """Return a broken answer with its broken records repaired."""
    cut_up = cut(body, verb) if repairs else None
    if cut_up is None:
        return RepairedAnswer(body=body)
    notes, grown, position, parts = [], [], 0, []
    for piece in sorted(cut_up.pieces, key=lambda piece: piece.offset):
        if piece.offset < position or _is_readable(cut_up, piece.raw, verb, limits):
            continue
        found = repaired_piece(cut_up, piece, verb, limits, repairs)
        if found is not None:
            parts += [body[position : piece.offset], found.raw]
            position = piece.end
            notes.append(note_of(found))
            grown.append((piece.end, len(found.raw) - (piece.end - piece.offset)))
    return RepairedAnswer(body=b"".join((*parts, body[position:])), notes=notes, grown=grown)


def _is_readable(
    cut_up: SplitAnswer, raw: bytes, verb: Verb = Verb.LIST_RECORDS, limits: AnswerLimits = DEFAULT_LIMITS
) -> bool:
    try:
        only_child(cut_up, Piece(source=raw, offset=0, end=len(raw)), verb, limits)
    except MalformedXmlError:
        return False
    return True


def _marked(found: Repaired) -> bytes:
    """Return the record with an `about` container that names the repairs; a header alone has none."""
    closing = _CLOSING.search(found.raw)
    if closing is None:
        return found.raw
    prefix = closing[1] or b""
    mark = f'<repaired xmlns="{REPAIRED_NAMESPACE}">{" ".join(found.repairs)}</repaired>'.encode()
    return (
        found.raw[: closing.start()]
        + b"<%babout>%b</%babout>" % (prefix, mark, prefix)
        + found.raw[closing.start() :]
    )
