"""An asynchronous Z39.50 client based on `yaz-client` that delivers a result as an OAI-PMH list.

A list's set is its query, in PQF (prefix query format); its resumption token is the position from which to
continue. Each page is a separate session that repeats the search, so any page can be requested at any time.
"""

import asyncio
import copy
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from lxml import etree
from pymarc.marc8_mapping import CODESETS, ODD_MAP

from harvester.client.query_results import (
    MARC21_NAMESPACE,
    QueryClient,
    QueryCursor,
    no_records_match,
    page_of,
    read_place,
    wrapped,
)
from harvester.client.repository_client import Traffic
from harvester.client.selection import Selection
from harvester.reading.answers import Fault, FormatInfo, Identity, Page
from harvester.reading.errors import CannotDisseminateFormatError, ClientError, MalformedAnswerError
from harvester.z3950 import session
from harvester.z3950.session import Address, SessionAnswer, read_address
from oai.console import counted
from oai.errors import UsageError
from oai.failures import Failure, FailureCode
from oai.folding import normalised
from oai.reach import Zone, ZoneOf, without_credentials, zone_of
from oai.sections import HarvesterSettings
from oai.vocabulary import Verb

_END: Final = b"\x1d"
_FIELD_END: Final = b"\x1e"
_FIELD: Final = re.compile(rb"[^\x1e]*\x1e|[^\x1e]+\Z")
_SUBFIELD: Final = b"\x1f"
_LEADER: Final = 24
_ENTRY: Final = 12
_CODING: Final = 9
_UTF_8: Final = ord("a")
_ESCAPE: Final = re.compile(rb"\x1b\$?([(,)-]?)!?([1-4BENQSbgps])")
"""Selects a set of MARC-8 characters, for bytes below 0x80 (G0) or from 0xA0 (G1)."""
_G1: Final = frozenset({b")", b"-"})
_BASIC_LATIN: Final = ord("B")
_ANSEL: Final = ord("E")
_EACC: Final = ord("1")
_CHARACTERS: Final = {
    **CODESETS,
    ord("s"): CODESETS[_BASIC_LATIN],
    _EACC: {**CODESETS[_EACC], **{code: (found, 0) for code, found in ODD_MAP.items()}},
}
"""Characters of MARC-8 by set and code; each with 1 if it is combining, otherwise 0."""
_SLIM: Final = f"{{{MARC21_NAMESPACE}}}"
_XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
_NAMESPACES: Final[dict[Any, str]] = {None: MARC21_NAMESPACE, "xsi": _XSI}
FORMAT: Final = FormatInfo(
    metadata_prefix="marcxml",
    schema="http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd",
    namespace=MARC21_NAMESPACE,
)
"""The format of the records: MARC 21, converted to MARCXML."""
_NAMES: Final = frozenset({"marcxml", "marc21", "marc"})
_AT_ONCE: Final = 100


class UnreadableMarcError(ValueError):
    """Bytes that are not a MARC 21 record."""


def split(exchanged: bytes) -> Sequence[bytes]:
    """Split a file into records, each with its terminator; the rest after the last one is a separate part."""
    parts = exchanged.split(_END)
    rest = [parts[-1]] if parts[-1].strip() else []
    return [*(part + _END for part in parts[:-1]), *rest]


def marcxml(record: bytes) -> etree._Element:
    """Return the record as `<record>` in the namespace of MARCXML. Raises UnreadableMarcError.

    A record that declares MARC-8 but is valid UTF-8 with non-ASCII characters is read as UTF-8: text in
    MARC-8 never looks like that, because an accent precedes its letter there. A record whose directory,
    indicators or characters are wrong is refused: pymarc's reader would drop or replace part of its text.
    """
    if len(record) <= _LEADER:
        raise UnreadableMarcError(f"{len(record)} bytes are not a MARC record")
    decode = bytes.decode if record[_CODING] == _UTF_8 or _is_utf8(record) else _from_marc8
    made = etree.Element(
        f"{_SLIM}record",
        {f"{{{_XSI}}}schemaLocation": f"{FORMAT.namespace} {FORMAT.schema}"},
        nsmap=_NAMESPACES,
    )
    where = ""
    try:
        etree.SubElement(made, f"{_SLIM}leader").text = record[:_LEADER].decode("ascii")
        for tag, data in _fields(record):
            where = f"field {tag}: "
            _add_field(made, tag, data, decode)
    except ValueError as error:
        raise UnreadableMarcError(f"not a MARC 21 record: {where}{error}") from None
    return made


def _fields(record: bytes) -> Sequence[tuple[str, bytes]]:
    """Return each field's tag and content; raise ValueError unless the directory gives each exactly once."""
    length, base = int(record[:5]), int(record[12:17])
    if length > len(record):
        raise ValueError(f"the leader gives {length:,} bytes, but it has {len(record):,}")
    directory = record[_LEADER : base - 1]
    if len(directory) % _ENTRY or not directory or record[base - 1 : base] != _FIELD_END:
        raise ValueError("no directory with entries of 12 bytes ends before the base address of data")
    written = {found.start(): found[0] for found in _FIELD.finditer(record[base:].removesuffix(_END))}
    fields = []
    for place in range(0, len(directory), _ENTRY):
        entry = directory[place : place + _ENTRY].decode("ascii")
        size, start = int(entry[3:7]), int(entry[7:])
        data = written.pop(start, b"")
        if len(data) != size or not data.endswith(_FIELD_END):
            raise ValueError(f"directory entry {entry} does not give the exact place of a field")
        fields.append((entry[:3], data[:-1]))
    if written:
        raise ValueError(f"the directory has no entry for the data at position {min(written)}")
    return fields


def _add_field(made: etree._Element, tag: str, data: bytes, decode: Callable[[bytes], str]) -> None:
    """Add a field; one with a tag of letters and without subfields, such as Aleph's FMT, is a control field.

    Missing indicators are blank. Raises ValueError if text is outside the subfields, or cannot be decoded.
    """
    is_control = tag < "010" if tag.isdigit() else _SUBFIELD not in data
    if is_control:
        etree.SubElement(made, f"{_SLIM}controlfield", tag=tag).text = decode(data) or None
        return
    indicators, *subfields = data.split(_SUBFIELD)
    if len(indicators) > 2 or (indicators.strip() and not subfields):  # noqa: PLR2004 MARC 21 has two
        raise ValueError(f"{indicators!r} is not two indicators before a subfield")
    marks = indicators.decode("ascii").ljust(2)
    field = etree.SubElement(made, f"{_SLIM}datafield", ind1=marks[0], ind2=marks[1], tag=tag)
    for subfield in filter(None, subfields):
        code = subfield[:1].decode("ascii")
        etree.SubElement(field, f"{_SLIM}subfield", code=code).text = decode(subfield[1:]) or None


def _from_marc8(data: bytes) -> str:
    """Decode MARC-8; raise ValueError for what pymarc's decoder drops or replaces, whose tables it uses."""
    if data.isascii() and b"\x1b" not in data:
        return data.decode()
    sets = [_BASIC_LATIN, _ANSEL]
    text: list[str] = []
    marks: list[str] = []
    place = 0
    while place < len(data):
        if escape := _ESCAPE.match(data, place):
            half, final = escape.groups()
            sets[half in _G1] = ord(final)
            place = escape.end()
            continue
        size, character, is_mark = _marc8_character(data, place, sets)
        place += size
        if is_mark:
            marks.append(character)
            continue
        if marks and not character.isalnum():
            break
        text += [character, *marks]
        marks.clear()
    if marks:
        raise ValueError(f"a MARC-8 accent before position {place} belongs to no letter or digit")
    return normalised("NFC", "".join(text))


def _marc8_character(data: bytes, place: int, sets: Sequence[int]) -> tuple[int, str, bool]:
    """Return the number of bytes of the character there, the character, and whether it is combining."""
    byte = data[place]
    if byte in b" \t\r\n":  # the same in all sets
        return 1, chr(byte), False
    high = byte & 0x80
    charset = _ANSEL if 0x80 <= byte < 0xA0 else sets[high >> 7]  # noqa: PLR2004 control characters
    written = data[place : place + (3 if charset == _EACC else 1)]
    code = int.from_bytes(bytes(one ^ high for one in written))
    found = _CHARACTERS[charset].get(code) or _CHARACTERS[charset].get(code | 0x80)
    if found is None:
        raise ValueError(f"MARC-8 does not define {written.hex(' ')} (hexadecimal) at position {place}")
    return len(written), chr(found[0]), bool(found[1])


def readable_records(exchanged: bytes) -> Iterator[tuple[bytes, etree._Element | None, str]]:
    """Yield each record's bytes, with its MARCXML, or with the reason why there is none."""
    for record in split(exchanged):
        try:
            yield record, marcxml(record), ""
        except UnreadableMarcError as error:
            yield record, None, str(error)


def _is_utf8(record: bytes) -> bool:
    if record.isascii():
        return False
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True


class Z3950Client(QueryClient):
    """A client of one database."""

    _by_name = "@attr 1=12 "
    """Control number (Bib-1 use attribute 12, local number)."""

    def __init__(
        self,
        base_url: str,
        settings: HarvesterSettings,
        *,
        retries: int | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_wait: Callable[[float, str], None] = lambda _seconds, _reason: None,
        zone_of: ZoneOf = zone_of,
    ) -> None:
        self.base_url = without_credentials(base_url)
        self.traffic = Traffic()
        self._address = read_address(base_url)
        self._settings = settings
        self._retries = settings.retries if retries is None else retries
        self._sleep = sleep
        self._on_wait = on_wait
        self._zone_of = zone_of

    def with_retries(self, retries: int) -> Self:
        """Return a client of the same database with another number of retries; both share the counters."""
        other = copy.copy(self)
        other._retries = retries  # noqa: SLF001 same class
        return other

    async def identify(self, *, loose: bool = False) -> Identity:  # noqa: ARG002 no answer is parsed that could be invalid
        """Return the server's identity on connection; Z39.50 does not describe deletions or dates.

        Raises SettingsError if `yaz-client` is not installed, and TransportError.
        """
        server = await session.initialise_session(await self._located(), self.base_url, self._settings)
        self.traffic.requests += 1
        place = f"{self._address.database} at {self._address.host}"
        return self._identity(f"{place} ({server})" if server else place, "Z39.50 version 3")

    async def list_metadata_formats(self, *, loose: bool = False) -> tuple[FormatInfo, ...]:  # noqa: ARG002 the interface
        """Return MARCXML as the only format."""
        return (FORMAT,)

    async def pages(
        self, verb: Verb, selection: Selection, *, resumption_token: str = "", loose: bool = False
    ) -> AsyncIterator[Page]:
        """Yield the pages of a query's result; the query is the selection's set.

        Raises Z3950Error, NoRecordsMatchError, TransportError, and UsageError if the query is invalid.
        """
        self._check(selection)
        place = read_place(resumption_token)
        while True:
            try:
                answer = await self._ask(selection.set_spec or "", place)
            except session.Z3950Error as error:
                if not loose or place.position == 1 or not session.is_out_of_range(error):
                    raise
                yield place.cut_off(error, self.base_url)
                return
            page = await asyncio.to_thread(self._page, answer, place)
            if page.faults and not loose:
                raise MalformedAnswerError(page.url, page.faults[0].reason)
            yield replace(page, records=()) if verb is Verb.LIST_IDENTIFIERS else page
            if not page.next_token:
                return
            place = read_place(page.next_token)
            await self._sleep(self._settings.delay)

    @property
    def _prefix(self) -> str:
        """Return the prefix of the records' identifiers."""
        return f"z3950:{self._address.host}:{self._address.database}"

    def _check(self, selection: Selection) -> None:
        if selection.from_ or selection.until:
            raise UsageError("Z39.50 selects by query, not by datestamps; add the dates to the query")
        if selection.metadata_prefix.lower() not in _NAMES:
            words = (
                f"format {selection.metadata_prefix!r} is not available; records are in marcxml, so "
                "give --format"
            )
            raise CannotDisseminateFormatError(self.base_url, "format", f"{words} marcxml")

    async def _located(self) -> Address:
        """Return the database with an IP address; a server on the public internet stays there."""
        private = self._settings.private_addresses and not self.traffic.public
        found, zone = await session.locate(
            self._address, self.base_url, private=private, zone_of=self._zone_of
        )
        self.traffic.public |= zone is Zone.PUBLIC
        return found

    async def _ask(self, query: str, place: QueryCursor) -> SessionAnswer:
        """Return an answer, with as many attempts as configured."""
        for number in range(self._retries + 1):
            self.traffic.requests += 1
            try:
                answer = await session.ask(
                    await self._located(), self.base_url, query, self._settings, place=place, most=_AT_ONCE
                )
            except ClientError as error:
                if number == self._retries or not session.is_passing(error):
                    raise
                seconds = self._settings.first_delay * 2.0 ** min(number, 6)
                self._on_wait(seconds, str(error))
                await self._sleep(seconds)
                continue
            self.traffic.bytes += answer.traffic
            return answer
        raise AssertionError("unreachable: the last try returns or raises")

    def _page(self, answer: SessionAnswer, place: QueryCursor) -> Page:
        position = place.position
        if not answer.size:
            raise no_records_match(self.base_url)
        read = list(readable_records(answer.records))
        records = tuple(wrapped(found, prefix=self._prefix) for _, found, _ in read if found is not None)
        # A stray end mark in a record makes two parts of it, so the parts do not count as positions.
        following = QueryCursor(position=position + answer.received, size=answer.size)
        token = following.token_after(place, ended=not answer.received or following.is_past_end)
        faults = (*_faults(read, position, answer.received), *place.faults(answer.size))
        return page_of(records, url=f"{self.base_url}#{position}", token=token, faults=faults)


def _faults(
    read: Sequence[tuple[bytes, etree._Element | None, str]], position: int, received: int
) -> Iterator[Fault]:
    """Yield the errors of the records from that position on, and of those that were not delivered."""
    for index, (raw, metadata, reason) in enumerate(read):
        if metadata is None:
            words = f"record at position {position + index:,}: {reason}"
            failure = Failure(code=FailureCode.RECORD_STRUCTURE)
            yield Fault(offset=-1, reason=words, raw=raw, failure=failure)
    missing = received - len(read)
    if missing > 0:
        were = "was" if missing == 1 else "were"
        records = f"{counted(missing, 'record')} from position {position:,}"
        reason = f"{records} {were} returned as diagnostics, not as MARC 21"
        yield Fault(offset=-1, reason=reason, raw=b"", failure=Failure(code=FailureCode.FORMAT_NOT_OFFERED))
