"""Splits a large answer into small ones that are read one after the other, in constant memory.

A repository without paging sends all its records in one answer of some hundred megabytes, whose elements
would take ten times as much memory. So it is parsed as a stream, twice: first to check that it is complete,
and to find what surrounds its records; then every few thousand records become a separate answer under the
same root.
"""

import copy
import mmap
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from lxml import etree

from harvester.reading.answers import Fault
from harvester.reading.encoding import readable
from harvester.reading.envelope import Envelope, local_name, open_envelope
from harvester.reading.errors import AnswerTooLargeError, MalformedAnswerError
from harvester.reading.list_elements import read_header, read_record, read_token
from harvester.reading.repairs import Repair, note_of, repaired_piece
from harvester.reading.salvage import SplitAnswer, cut, fault_of, read_in_parts
from harvester.reading.spooled import Spooled
from harvester.reading.strictness import check_header, check_record
from oai.errors import MalformedXmlError
from oai.failures import FailureCode
from oai.limits import DEFAULT_LIMITS, AnswerLimits
from oai.vocabulary import Verb
from oai.xml import DOCTYPE_REFUSED, LIMIT_CODES, PARSER_OPTIONS, malformed, refuse_doctype, tags_in

_FEED = 256 * 1024
_PART_BYTES = 2 * 1024**2
_PART_RECORDS = 2000
_LARGEST_ROOT = 64 * 1024
_TARGET = f"zatva-{secrets.token_hex(8)}"
"""Target of the instruction that marks the place of the records; random, so no answer can contain it."""
_MARK = etree.tostring(etree.ProcessingInstruction(_TARGET))
_PARTS = frozenset({"record", "header"})
_AROUND = frozenset({"responseDate", "request", "requestURL"})


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some of the answer's records, as a separate answer."""

    number: int
    """Number of the part, from 1 on."""
    body: bytes
    faults: tuple[Fault, ...] = ()
    """Unreadable parts among these records."""
    notes: tuple[str, ...] = ()
    last: bool = False
    """Whether it is the last part, which has the token."""
    cut_off: bool = False
    """Whether the answer is truncated after this part."""


@dataclass(frozen=True, kw_only=True)
class Splitting:
    """A large answer, checked: its token, and its parts, which are created on demand."""

    token: str
    parts: Iterator[Part]


class LargeAnswer(NamedTuple):
    """An answer to a list request that is too large to be read at once; see `replies.Unread`."""

    body: Spooled
    verb: Verb
    url: str
    content_type: str
    loose: bool
    limits: AnswerLimits
    repairs: tuple[Repair, ...] = ()


def split(large: LargeAnswer) -> Splitting:
    """Check the answer and return its parts.

    An answer that is broken, or has a part beyond the limits, is read record by record if that is allowed
    (`loose`), like a small one. Raises as `replies.read_page` does.
    """
    found = readable(large.body, large.content_type)
    if found.note and not large.loose:
        raise MalformedAnswerError(large.url, found.note)
    notes = (found.note,) if found.note else ()
    body = found.body
    try:
        around = _Around.of(_checked(body, large), large)
    except (MalformedAnswerError, AnswerTooLargeError) as error:
        if not large.loose:
            raise
        # The frames of the traceback hold the parser, with everything it has read.
        broken = error.with_traceback(None)
    else:
        return Splitting(token=around.token, parts=_whole_parts(body, large, around, notes))
    broken.__context__ = None
    return _salvaged(body, large, notes, broken)


@dataclass(frozen=True, kw_only=True)
class _Around:
    """What surrounds the records: in the answer, and in each of its parts except the last."""

    envelope: tuple[bytes, bytes]
    bare: tuple[bytes, bytes]
    token: str

    @classmethod
    def of(cls, root: etree._Element, large: LargeAnswer) -> "_Around":
        """Return it for an answer whose records are replaced by a mark. Raises as `open_envelope` does."""
        envelope = open_envelope(
            etree.tostring(root, encoding="UTF-8"), large.verb, large.url, loose=large.loose
        )
        bare = copy.deepcopy(root)
        _strip(bare)
        around = etree.tostring(bare, encoding="UTF-8", xml_declaration=True)
        if len(around) > _LARGEST_ROOT:
            raise _beyond(FailureCode.PART_BYTES, _LARGEST_ROOT, 0, large)
        whole = etree.tostring(root, encoding="UTF-8", xml_declaration=True)
        return cls(envelope=_halves(whole), bare=_halves(around), token=_token(envelope))


def _token(envelope: Envelope) -> str:
    """Return the token for the next page if it is in its proper place."""
    last = envelope.children[-1] if envelope.children and not envelope.notes else None
    return read_token(last).value if last is not None and local_name(last) == "resumptionToken" else ""


def _strip(root: etree._Element) -> None:
    """Reduce what surrounds the records to what each part needs."""
    instructions = cast("Iterator[Any]", root.iter(etree.ProcessingInstruction))
    mark = next(found for found in instructions if found.target == _TARGET)
    holder = mark.getparent()
    for child in list(root):
        needed = child is holder or child is mark
        if not needed and (callable(child.tag) or local_name(child) not in _AROUND):
            root.remove(child)
    for child in list(holder) if holder is not root else ():
        if child is not mark:
            holder.remove(child)


def _halves(document: bytes) -> tuple[bytes, bytes]:
    before, _, after = document.partition(_MARK)
    return before, after


def _checked(body: Spooled, large: LargeAnswer) -> etree._Element:
    """Parse the answer; return its root, in which a mark replaces the records.

    Raises MalformedAnswerError, NotOaiPmhError and AnswerTooLargeError.
    """
    listed = _Listed(large, closely=False)
    try:
        return listed.root(body)
    except _SuspicionError:
        return _Listed(large, closely=True).root(body)


class _SuspicionError(Exception):
    """What looks like too many elements may be text, so they have to be counted one by one."""


class _Listed:
    """The records of an answer, element by element, in the memory that one of them needs."""

    def __init__(self, large: LargeAnswer, *, closely: bool) -> None:
        self._large = large
        self._closely = closely
        self._last: etree._Element | None = None
        self._holder: etree._Element | None = None
        self._root: etree._Element | None = None
        self._fed = self._began = self._tags = self._elements = self._depth = 0

    def root(self, body: Spooled) -> etree._Element:
        """Parse the whole answer, and return what is left, with a mark in place of the records.

        Raises MalformedAnswerError, and AnswerTooLargeError for a part beyond the limits.
        """
        try:
            for element in self.records(body, checked=False):
                if not self._large.loose:
                    _read(element)
        except MalformedXmlError as error:
            raise MalformedAnswerError(self._large.url, error.reason) from None
        except etree.XMLSyntaxError as error:
            if not self._closely and getattr(error, "code", 0) in LIMIT_CODES:
                raise _SuspicionError from None
            reason = malformed(error, self._large.url).reason
            words = f"the answer is not well-formed: {reason}"
            raise MalformedAnswerError(self._large.url, words) from None
        except ValueError as error:
            raise MalformedAnswerError(self._large.url, str(error)) from None
        holder, last = self._holder, self._last
        if self._root is None or holder is None or last is None:
            raise MalformedAnswerError(self._large.url, "an answer of this size has no records")
        if self._root.getroottree().docinfo.internalDTD is not None:
            raise MalformedAnswerError(self._large.url, DOCTYPE_REFUSED)
        holder.replace(last, etree.ProcessingInstruction(_TARGET))
        return self._root

    def records(self, body: Spooled, *, checked: bool) -> Iterator[etree._Element]:
        """Yield each record or header, which the next one frees; limits apply to an unchecked answer."""
        huge = checked or self._closely or self._large.limits.part_depth < DEFAULT_LIMITS.part_depth
        parser = _parser(closely=self._closely, huge=huge)
        for begin in range(0, len(body), _FEED):
            chunk = body[begin : begin + _FEED]
            if begin == 0:
                refuse_doctype(chunk, self._large.url)
            parser.feed(chunk)
            self._fed += len(chunk)
            yield from self._events(parser)
            if not checked:
                self._check(chunk)
        self._root = parser.close()

    def _events(self, parser: etree.XMLPullParser) -> Iterator[etree._Element]:
        for event, found in parser.read_events():
            element = cast("Any", found)
            if self._closely:
                self._count(event)
            if event == "end" and self._is_listed(element):
                self._began, self._elements = self._fed, 0
                yield element
                self._let_go(element)

    def _is_listed(self, element: etree._Element) -> bool:
        """Return whether it is a record of the list itself; metadata may contain records, too."""
        if callable(element.tag) or local_name(element) not in _PARTS:
            return False
        holder = element.getparent()
        if self._holder is None and holder is not None:
            above = holder.getparent()
            is_list = local_name(holder) == self._large.verb.value
            if is_list and (above is None or above.getparent() is None):
                self._holder = holder
        return holder is not None and holder is self._holder

    def _let_go(self, element: Any) -> None:  # noqa: ANN401 the stubs have an outdated clear()
        # The parser may still be appending the text after this element; everything before it is complete.
        element.clear(keep_tail=True)
        if self._last is not None and self._holder is not None:
            self._holder.remove(self._last)
        self._last = element

    def _check(self, chunk: bytes) -> None:
        limits = self._large.limits
        if self._fed - self._began > limits.part_bytes + _FEED:
            raise _beyond(FailureCode.PART_BYTES, limits.part_bytes, self._began, self._large)
        tags = tags_in(chunk)
        self._tags += tags
        if self._tags > limits.part_elements and not self._closely:
            raise _SuspicionError
        if self._began == self._fed:
            self._tags = tags  # the end of the last record within the chunk is unknown

    def _count(self, event: str) -> None:
        if event == "end":
            self._depth -= 1
            return
        self._elements += 1
        self._depth += 1
        limits = self._large.limits
        if self._elements > limits.part_elements:
            raise _beyond(FailureCode.PART_ELEMENTS, limits.part_elements, self._began, self._large)
        if self._depth > limits.part_depth:
            raise _beyond(FailureCode.PART_DEPTH, limits.part_depth, self._began, self._large)


def _parser(*, closely: bool, huge: bool) -> etree.XMLPullParser:
    """Return a parser that reports the ends of records; closely, the start and end of each element.

    Unless it is `huge`, libxml2's own limits apply: 256 levels, and texts of 10 MB.
    """
    if closely:
        return etree.XMLPullParser(events=("start", "end"), huge_tree=huge, **PARSER_OPTIONS)
    tags = ["{*}record", "{*}header"]
    return etree.XMLPullParser(events=("end",), tag=tags, huge_tree=huge, **PARSER_OPTIONS)


def _beyond(code: FailureCode, limit: int, offset: int, large: LargeAnswer) -> AnswerTooLargeError:
    return AnswerTooLargeError(large.url, large.limits.failure(code, limit, offset=offset))


def _read(element: etree._Element) -> None:
    """Read a record or header strictly; raise ValueError that says what is wrong with it."""
    if local_name(element) == "record":
        check_record(element)
        read_record(element)
    else:
        check_header(element)
        read_header(element)


class _Batch:
    """Records that will become a part."""

    def __init__(self, number: int = 1) -> None:
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        """Repairs of its records."""
        self._number = number
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Add a record."""
        self._pieces.append(piece)
        self._size += len(piece)

    @property
    def full(self) -> bool:
        """Whether it has enough records for a part."""
        return self._size >= _PART_BYTES or len(self._pieces) + len(self.faults) >= _PART_RECORDS

    def part(self, around: tuple[bytes, bytes], *, notes: tuple[str, ...]) -> Part:
        """Return the part."""
        body = around[0] + b"".join(self._pieces) + around[1]
        return Part(number=self._number, body=body, faults=tuple(self.faults), notes=(*notes, *self.notes))

    def next(self) -> "_Batch":
        """Return the batch for the next part."""
        return _Batch(self._number + 1)


def _whole_parts(
    body: Spooled, large: LargeAnswer, around: _Around, notes: tuple[str, ...]
) -> Iterator[Part]:
    """Yield the parts of a complete answer."""
    batch = _Batch()
    for element in _Listed(large, closely=False).records(body, checked=True):
        if batch.full:  # the last part is never empty: read strictly, a list has a record
            yield batch.part(around.bare, notes=notes)
            batch = batch.next()
        batch.add(etree.tostring(element, encoding="UTF-8", with_tail=False))
    yield replace(batch.part(around.envelope, notes=notes), last=True)


def _salvaged(
    body: Spooled,
    large: LargeAnswer,
    notes: tuple[str, ...],
    error: MalformedAnswerError | AnswerTooLargeError,
) -> Splitting:
    """Return the parts of a broken answer, as far as its records can be read one by one.

    Raises the error if no list begins in it.
    """
    with mmap.mmap(body.fileno(), len(body), access=mmap.ACCESS_READ) as whole:
        end = whole.rfind(b"OAI-PMH>") + len(b"OAI-PMH>")
    # Data after the root would make the answer look truncated.
    mapped = mmap.mmap(body.fileno(), end if end >= len(b"OAI-PMH>") else len(body), access=mmap.ACCESS_READ)
    cut_up = cut(mapped, large.verb)
    if cut_up is None:
        raise error
    if hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)  # pages that were scanned can be read again from the file
    reason = error.failure.sentence() if isinstance(error, AnswerTooLargeError) else error.reason
    notes = (*notes, read_in_parts(reason))
    return Splitting(token="", parts=_sound_parts(cut_up, large, notes, error))


def _sound_parts(
    cut_up: SplitAnswer,
    large: LargeAnswer,
    notes: tuple[str, ...],
    error: MalformedAnswerError | AnswerTooLargeError,
) -> Iterator[Part]:
    limit = error.failure if error.failure is not None and error.failure.is_limit else None
    batch, sound, blamed = _Batch(), 0, limit is None
    for piece in cut_up.pieces:
        fault = fault_of(cut_up, piece, large.verb, large.limits)
        small = piece.end - piece.offset <= large.limits.part_bytes
        mended = (
            repaired_piece(cut_up, piece, large.verb, large.limits, large.repairs)
            if fault and small
            else None
        )
        if mended is not None:
            batch.notes.append(note_of(mended))
        if fault is None or mended is not None:
            sound += 1
            batch.add(piece.raw if mended is None else mended.raw)
        else:
            blamed = blamed or fault.failure.is_limit
            batch.faults.append(fault)
        if batch.full:
            yield batch.part((cut_up.before, cut_up.after), notes=notes)
            batch = batch.next()
    if not sound:
        raise error
    if not blamed and limit is not None:
        batch.faults.append(Fault(offset=0, reason=limit.sentence(), raw=b"", failure=limit))
    token = cut_up.token.raw if cut_up.ended and cut_up.token is not None else b""
    last = batch.part((cut_up.before, token + cut_up.after), notes=notes)
    yield replace(last, last=True, cut_off=not cut_up.ended)
