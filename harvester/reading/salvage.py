"""Cuts a broken list answer into its records, so that each can be parsed alone; interprets only tags.

Nothing is repaired or guessed. A record is a piece between the tags of a list's own `<record>`, outside CDATA
and comments, and not inside another record's `<metadata>` or `<about>`. Damage may have removed the very tags
that show this, so a piece is trusted only if an unbroken chain of pieces with matching tags leads to it from
the list's beginning or from its end; the others are reported, not read.
"""

import mmap
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from lxml import etree

from harvester.reading.answers import Fault
from harvester.reading.envelope import local_name
from oai.errors import MalformedXmlError
from oai.failures import CodedText, Failure, FailureCode
from oai.limits import AnswerLimits
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, XSI_NAMESPACE, Verb
from oai.xml import parse

WELL_KNOWN: Final[Mapping[str, str]] = {
    "xsi": XSI_NAMESPACE,
    "oai_dc": OAI_DC_NAMESPACE,
    "dc": DC_NAMESPACE,
    "dcterms": "http://purl.org/dc/terms/",
    "dcmitype": "http://purl.org/dc/dcmitype/",
    "marc": "http://www.loc.gov/MARC21/slim",
    "mods": "http://www.loc.gov/mods/v3",
    "mets": "http://www.loc.gov/METS/",
    "xlink": "http://www.w3.org/1999/xlink",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "ore": "http://www.openarchives.org/ore/terms/",
    "edm": "http://www.europeana.eu/schemas/edm/",
}
# libxml2's errors 201 and 99; only their texts name the prefix.
_UNDECLARED: Final = re.compile(r"Namespace prefix (\S+) .*is not defined", re.DOTALL)
_NO_URI: Final = re.compile(r"xmlns(?::\S+)?: '.*' is not a valid URI", re.DOTALL)
_TAG: Final = re.compile(
    rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)"
    rb"""|<(?P<name>[A-Za-z_])(?:[^<>"']|"[^"<]*"|'[^'<]*')*>""",
    re.DOTALL,
)
# Whole attributes, so that a value which contains what looks like one stays as it is.
_ATTRIBUTE: Final = re.compile(rb"""(\s)([^\s=<>"'/]+)(\s*=\s*)("[^"]*"|'[^']*')""")
_ADDRESS: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:\S*")


@dataclass(frozen=True, kw_only=True)
class Fragment:
    """A record's bytes, with the start tags that surround it and declare its namespaces."""

    before: bytes
    raw: bytes
    notes: tuple[str, ...] = ()
    """What was read as it can only be meant."""

    def mended(self, reason: str) -> "Fragment | None":
        """Return the fragment without what the parser rejects for this reason; None if that is unclear."""
        prefix = _UNDECLARED.match(reason)
        if prefix is not None:
            return self._declaring(prefix[1])
        raw = with_one_address_each(self.raw) if _NO_URI.match(reason) else self.raw
        if raw == self.raw:
            return None
        return replace(
            self, raw=raw, notes=(*self.notes, "a namespace has several addresses; the first is used")
        )

    def _declaring(self, prefix: str) -> "Fragment | None":
        namespace = WELL_KNOWN.get(prefix)
        declaration = f' xmlns:{prefix}="{namespace}">'.encode()
        if namespace is None or self.before.endswith(declaration):
            return None
        note = f"the prefix {prefix!r} is not declared; it is read as {namespace!r}"
        return replace(self, before=self.before[:-1] + declaration, notes=(*self.notes, note))


def with_one_address_each(markup: bytes) -> bytes:
    """Return the markup with only the first address of each namespace declaration that has several."""
    return _TAG.sub(lambda tag: _ATTRIBUTE.sub(_first_address, tag[0]) if tag["name"] else tag[0], markup)


def _first_address(attribute: re.Match[bytes]) -> bytes:
    name, value = attribute[2], attribute[4]
    addresses = value[1:-1].split()
    declares = name == b"xmlns" or name.startswith(b"xmlns:")
    if not declares or len(addresses) < 2 or not all(map(_ADDRESS.fullmatch, addresses)):  # noqa: PLR2004 several
        return attribute[0]
    return attribute[1] + name + attribute[3] + value[:1] + addresses[0] + value[:1]


_SHOWN_BYTES = 1_000_000
"""Bytes kept of a piece that is too large to be read."""

_DECLARATION = re.compile(rb"\s*<\?xml[^>]*\?>")
_ROOT = re.compile(rb"<((?:[A-Za-z_][\w.-]*:)?)OAI-PMH(?:\s[^>]*)?>")
_RESPONSE_DATE = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?responseDate(?:\s[^<>]*+)?>([^<]*+)</")
# Expressions for answers match each byte in one way only, and do not read to the answer's end from each of
# many places: a search holds the interpreter lock, so that neither a time limit nor a signal ends it. Atomic
# groups, because before 3.11.5, Python fails to match a possessive quantifier of alternatives (gh-106052).
_SKIPPED = rb"<!\[CDATA\[.*?(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z)"
_ANY_TAG = re.compile(
    _SKIPPED + rb"""|<(?P<close>/?)(?P<name>[A-Za-z_][^\s<>"'/]*+)"""
    rb"""(?>(?:[^<>"'/]++|/+(?!>)|"[^"]*+"|'[^']*+')*)(?P<empty>/?)>""",
    re.DOTALL,
)
_NOTHING = re.compile(rb"(?>(?:\s++|<!--(?>.*?-->))*)", re.DOTALL)
_NAMES = {Verb.LIST_RECORDS: b"record", Verb.LIST_IDENTIFIERS: b"header", Verb.GET_RECORD: b"record"}
_NAMESPACES = re.compile(rb"""\sxmlns(?::[\w.-]+)?\s*=\s*(?:"[^"<]*"|'[^'<]*')""")
_PART = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?(?:record|header)[\s/>]")
_IDENTIFIER = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?identifier>([^<]*+)</")
_LONGEST_SHOWN = 500
_BARE_AMPERSAND = re.compile(rb"&(?!(?:[A-Za-z]\w*|#[0-9]+|#x[0-9A-Fa-f]+);)")


Source = bytes | mmap.mmap
"""A broken answer, in memory or in a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A range of bytes of the answer that should be one element, complete or not."""

    source: Source
    offset: int
    end: int
    fault: str = ""
    """Why it cannot be read; empty if parsing it may be tried."""
    shift: int = 0
    """Offset of the source in the answer."""

    @property
    def raw(self) -> bytes:
        """The bytes; copied on each access, so that an answer in a file stays there."""
        return self.source[self.offset - self.shift : self.end - self.shift]

    def moved(self, by: int) -> "Piece":
        """Return the piece of an answer that has so many bytes more before the source."""
        return replace(self, offset=self.offset + by, end=self.end + by, shift=self.shift + by)


@dataclass(kw_only=True)
class SplitAnswer:
    """A broken answer, cut into pieces; a piece between `before` and `after` is a document."""

    before: bytes
    """The XML declaration, and the start tags around the list with their namespaces."""
    after: bytes
    response_date: str
    pieces: list[Piece] = field(default_factory=list)
    token: Piece | None = None
    ended: bool = False
    """Whether the end of the list and of the answer is present."""


def cut(body: Source, verb: Verb) -> SplitAnswer | None:
    """Cut a broken answer to a list request; None if no list begins in it."""
    end = body.rfind(b">") + 1  # a search for the end of a tag always finds it up to there
    root = _ROOT.search(body, 0, end)
    if root is None or b"<!DOCTYPE" in body[: root.start()]:
        return None
    prefix = root.group(1)
    opening = re.compile(rb"<%b%b(?:\s[^>]*)?>" % (prefix, verb.encode())).search(body, root.end(), end)
    if opening is None:
        return None
    declaration = _DECLARATION.match(body)
    date = _RESPONSE_DATE.search(body, root.end(), opening.start())
    result = SplitAnswer(
        before=(declaration.group().lstrip() if declaration else b"") + _bare(root) + _bare(opening),
        after=b"</%b%b></%bOAI-PMH>" % (prefix, verb.encode(), prefix),
        response_date=date.group(1).strip().decode("ascii", errors="replace") if date else "",
    )
    walk = _Walk(body, prefix, verb, result)
    walk.run(opening.end(), end)
    first, last = opening.end(), walk.tail if result.ended else -1
    result.pieces = _judged(body, result.pieces, first=first, last=last)
    result.pieces += _overlooked(body, result.pieces, first=first, last=last if last >= 0 else len(body))
    return result


def _bare(tag: re.Match[bytes]) -> bytes:
    """Return the tag with only its namespaces: another attribute may be the broken one."""
    name = tag.group()[1:].split(None, 1)[0].rstrip(b">")
    return with_one_address_each(b"<" + name + b"".join(_NAMESPACES.findall(tag.group())) + b">")


def _overlooked(body: Source, pieces: list[Piece], *, first: int, last: int) -> list[Piece]:
    """Return what looks like a record between the pieces, so that none is lost silently."""
    found = []
    position = first
    for begin, end in [*((piece.offset, piece.end) for piece in pieces), (last, last)]:
        gap = body[position:begin]
        if _PART.search(gap):
            fault = "the content cannot be identified as a record"
            found.append(Piece(source=body, offset=position, end=begin, fault=fault))
        position = max(position, end)
    return found


def _judged(body: Source, pieces: list[Piece], *, first: int, last: int) -> list[Piece]:
    """Return the pieces, with a fault for those that cannot be trusted to be records of the list."""
    sound = [not piece.fault and _balanced(piece) for piece in pieces]
    trusted: set[int] = set()
    if last >= 0:
        trusted |= set(_chain(body, pieces, sound, range(len(pieces) - 1, -1, -1), last))
    forward, gap = _forward(body, pieces, sound, first, last if last >= 0 else len(body))
    # A tag that is closed between records was opened in one of them, but it is unknown in which.
    if b"</" not in gap:
        trusted |= forward
    doubtful = "it cannot be separated from a broken neighbouring record"
    return [
        piece if index in trusted or piece.fault else replace(piece, fault=doubtful)
        for index, piece in enumerate(pieces)
    ]


def _forward(
    body: Source, pieces: list[Piece], sound: list[bool], first: int, last: int
) -> tuple[set[int], bytes]:
    """Return the pieces reached by a chain from the list's beginning, and the text after the chain."""
    found: set[int] = set()
    position = first
    for index, piece in enumerate(pieces):
        gap = body[position : piece.offset]
        if not _NOTHING.fullmatch(gap):
            return found, gap
        # The piece that breaks the chain begins at the right place, so parsing it may be tried.
        found.add(index)
        if not sound[index]:
            return found, b""
        position = piece.end
    return found, body[position:last]


def _chain(
    body: Source, pieces: list[Piece], sound: list[bool], order: Iterable[int], position: int
) -> Iterator[int]:
    """Yield the pieces reached by a chain from the list's end."""
    for index in order:
        piece = pieces[index]
        if not sound[index] or not _NOTHING.fullmatch(body[piece.end : position]):
            return
        yield index
        position = piece.offset


def _balanced(piece: Piece) -> bool:
    """Return whether the piece's tags are balanced; the piece is not copied."""
    opened: list[bytes] = []
    for tag in _ANY_TAG.finditer(piece.source, piece.offset - piece.shift, piece.end - piece.shift):
        if tag["name"] is None or tag["empty"]:
            continue
        if not tag["close"]:
            opened.append(tag["name"])
        elif not opened or opened.pop() != tag["name"]:
            return False
    return not opened


class _Walk:
    """Scans the tags after the list's opening, and records where its records begin and end."""

    def __init__(self, body: Source, prefix: bytes, verb: Verb, result: SplitAnswer) -> None:
        self.tail = -1
        """Where the records end: at the token, or at the list's end."""
        self._body = body
        self._name = name = _NAMES[verb]
        self._verb = verb.encode()
        self._result = result
        self._start = -1
        self._inside = b""
        self._depth = 0
        self._token: re.Match[bytes] | None = None
        names = b"|".join((name, b"metadata", b"about", b"resumptionToken", self._verb))
        self._tags = re.compile(
            _SKIPPED + rb"|<(?P<close>/?)%b(?P<name>%b)(?=[\s/>])[^>]*?(?P<empty>/?)>" % (prefix, names),
            re.DOTALL,
        )
        self._ending = re.compile(rb"\s*</%bOAI-PMH\s*>\s*\Z" % prefix)

    def run(self, position: int, end: int) -> None:
        for tag in self._tags.finditer(self._body, position, end):
            if tag["name"] is None:
                continue
            if self._inside:
                self._in_content(tag)
            elif self._start >= 0:
                self._in_record(tag)
            elif not self._in_list(tag):
                return
        if self._start >= 0:
            self._add(len(self._body), fault="its end is missing")

    def _in_content(self, tag: re.Match[bytes]) -> None:
        if tag["name"] == self._inside and not tag["empty"]:
            self._depth += -1 if tag["close"] else 1
            if self._depth == 0:
                self._inside = b""

    def _in_record(self, tag: re.Match[bytes]) -> None:
        if tag["name"] == self._name:
            if tag["close"]:
                self._add(tag.end())
            else:
                self._add(tag.start(), fault="its end is missing")
                self._start = tag.start()
        elif tag["name"] in {b"metadata", b"about"} and not tag["close"] and not tag["empty"]:
            self._inside, self._depth = tag["name"], 1

    def _in_list(self, tag: re.Match[bytes]) -> bool:
        """Process a tag between records; return False at the list's end."""
        if tag["name"] == self._name and not tag["close"]:
            self._start = tag.start()
        elif tag["name"] == b"resumptionToken" and not tag["close"]:
            self._token = tag
        elif tag["name"] == self._verb and tag["close"]:
            self._end(tag)
            return False
        return True

    def _piece_of(self, token: re.Match[bytes]) -> Piece:
        end = token.end()
        if not token["empty"]:
            closing = self._body.find(b">", self._body.find(b"</", end))
            end = closing + 1 if closing >= 0 else len(self._body)
        return Piece(source=self._body, offset=token.start(), end=end)

    def _end(self, tag: re.Match[bytes]) -> None:
        """Record the list's end; a token counts only directly before it."""
        self._result.ended = self._ending.match(self._body, tag.end()) is not None
        token = self._piece_of(self._token) if self._token else None
        if token is not None and not (
            self._result.ended and _NOTHING.fullmatch(self._body[token.end : tag.start()])
        ):
            token, self._result.ended = None, False
        self._result.token = token
        self.tail = tag.start() if token is None else token.offset

    def _add(self, end: int, *, fault: str = "") -> None:
        piece = Piece(source=self._body, offset=self._start, end=end, fault=fault)
        self._result.pieces.append(piece)
        self._start = -1


class SalvagedElement(NamedTuple):
    """The element of a piece, and what was read as it can only be meant."""

    element: etree._Element
    notes: Sequence[str]


def only_child(cut_up: SplitAnswer, piece: Piece, verb: Verb, limits: AnswerLimits) -> SalvagedElement:
    """Return the piece's element, parsed alone. Raises MalformedXmlError."""
    if piece.fault:
        raise MalformedXmlError("record", piece.fault)
    fragment, only_uris = Fragment(before=cut_up.before, raw=piece.raw), True
    while True:
        document = fragment.before + fragment.raw + cut_up.after
        try:
            container = parse(
                document, source="record", limits=limits, offset=piece.offset, only_uris=only_uris
            )[0]
            break
        except MalformedXmlError as error:
            mended = fragment.mended(error.reason)
            if mended is None and only_uris and (found := _NO_URI.match(error.reason)):
                only_uris, mended = False, replace(fragment, notes=(*fragment.notes, found[0]))
            if mended is None:
                raise
            fragment = mended
    if local_name(container) != verb or len(container) != 1:
        raise MalformedXmlError("record", "not exactly one element")
    return SalvagedElement(container[0], fragment.notes)


def read_in_parts(reason: str) -> CodedText:
    """Return the note about a broken answer whose pieces are read alone."""
    return CodedText(f"{reason}; its parts were read one by one", Failure(code=FailureCode.ANSWER_IN_PARTS))


def fault_of(cut_up: SplitAnswer, piece: Piece, verb: Verb, limits: AnswerLimits) -> Fault | None:
    """Return the fault that prevents the piece from being read alone; None if there is none."""
    size = piece.end - piece.offset
    if size > limits.part_bytes:  # not even loaded into memory
        failure = limits.failure(FailureCode.PART_BYTES, limits.part_bytes, offset=piece.offset)
        raw = piece.source[piece.offset : piece.offset + _SHOWN_BYTES]
        return Fault(offset=piece.offset, reason=failure.sentence(), raw=raw, size=size, failure=failure)
    try:
        only_child(cut_up, piece, verb, limits)
    except MalformedXmlError as error:
        return fault_in(piece, error)
    return None


def fault_in(piece: Piece, error: MalformedXmlError) -> Fault:
    """Return the fault for a piece that cannot be parsed."""
    raw = piece.raw
    named = next(identifiers(raw), None)
    reason = f"record {named!r}: {error.reason}" if named else error.reason
    return Fault(
        offset=piece.offset,
        reason=reason,
        raw=raw,
        failure=error.failure or Failure(code=FailureCode.RECORD_XML),
    )


def escaped_ampersands(raw: bytes) -> bytes:
    """Return the piece with each ampersand that begins no reference escaped."""
    return _BARE_AMPERSAND.sub(b"&amp;", raw)


def identifiers(raw: bytes) -> Iterator[str]:
    """Yield the identifiers in a broken piece, for the report only."""
    for match in _IDENTIFIER.finditer(raw):
        identifier = match.group(1).strip()
        if 0 < len(identifier) <= _LONGEST_SHOWN:
            yield identifier.decode("utf-8", errors="replace")
