"""A small correct OAI-PMH provider in memory, whose parts can be made faulty one by one."""

import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from oai.datestamps import format_datestamp, parse_datestamp, utc_now
from oai.errors import ProtocolError
from oai.vocabulary import RULES, ErrorCode, Granularity, Verb
from oai.xml import escape
from provider.checking.transport import Received, Sent

URL = "http://small.example/oai"

ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://www.openarchives.org/'
    'OAI/2.0/ http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">'
)
DC = (
    '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/'
    'oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd"><dc:title>Title of {}</dc:title></oai_dc:dc>'
)
FORMATS = (
    "<metadataFormat><metadataPrefix>oai_dc</metadataPrefix><schema>http://www.openarchives.org/OAI/2.0/"
    "oai_dc.xsd</schema><metadataNamespace>http://www.openarchives.org/OAI/2.0/oai_dc/</metadataNamespace>"
    "</metadataFormat>"
)
SCHEME = (
    '<description><oai-identifier xmlns="http://www.openarchives.org/OAI/2.0/oai-identifier"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai-identifier http://www.openarchives.org/OAI/'
    '2.0/oai-identifier.xsd"><scheme>oai</scheme><repositoryIdentifier>small.example</repositoryIdentifier>'
    "<delimiter>:</delimiter><sampleIdentifier>oai:small.example:1</sampleIdentifier></oai-identifier>"
    "</description>"
)
SETS = (("a", "A"), ("a:b", "B in A"), ("c", "C"))
BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Item:
    """One record."""

    identifier: str
    moment: datetime
    set_specs: tuple[str, ...]
    deleted: bool = False


def items() -> list[Item]:
    """Fourteen records, two of them deleted; the first four of one second, on two pages."""
    seconds = (0, 0, 0, 0, *range(100_000, 1_000_000, 90_000))
    return [
        Item(
            identifier=f"oai:small.example:{number}",
            moment=BEGINNING + timedelta(seconds=second),
            set_specs=("a:b",) if number % 2 else ("a:b", "c"),
            deleted=number in {3, 9},
        )
        for number, second in enumerate(seconds, 1)
    ]


@dataclass(kw_only=True)
class SmallProvider:
    """Answers as a transport does. Each attribute that a test sets introduces one fault."""

    granularity: Granularity = Granularity.SECOND
    items: Sequence[Item] = field(default_factory=items)
    page: int = 3
    sets: Sequence[tuple[str, str]] = SETS
    ask: Callable[[dict[str, str]], dict[str, str]] = lambda arguments: arguments
    """Changes good arguments before they are worked on."""
    chosen: Callable[[Item, dict[str, str]], bool | None] = lambda _item, _arguments: None
    """Whether an item is listed, against what would be right."""
    served: Callable[[Item, str], Item] = lambda item, _verb: item
    """Changes an item as a verb shows it."""
    lenient: bool = False
    """Takes what is to be refused for Identify."""
    forgetful: Counter[str] | None = None
    """Tokens that were used; each is good once."""
    after: Callable[[Sent, Received], Received] = lambda _sent, received: received
    """Changes the finished answer."""

    def __call__(self, sent: Sent) -> Received:
        arguments: dict[str, str] = {}
        try:
            arguments = self._arguments(sent)
            content = self._content(self.ask(arguments))
        except ProtocolError as error:
            if self.lenient:
                arguments, content = {"verb": "Identify"}, self._content({"verb": "Identify"})
            else:
                silent = error.code in {ErrorCode.BAD_VERB, ErrorCode.BAD_ARGUMENT}
                arguments = {} if silent else arguments or getattr(error, "arguments", {})
                content = f'<error code="{error.code}">{escape(error.message)}</error>'
        return self.after(sent, self._received(sent, arguments, content))

    def _received(self, sent: Sent, arguments: dict[str, str], content: str) -> Received:
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in arguments.items())
        body = (
            f"{ENVELOPE}<responseDate>{format_datestamp(utc_now())}</responseDate>"
            f"<request{attributes}>{URL}</request>{content}</OAI-PMH>"
        ).encode()
        headers = {"content-type": "text/xml; charset=utf-8"}
        if sent.encoding == "gzip":
            body, headers = gzip.compress(body), {**headers, "content-encoding": "gzip"}
        return Received(status=200, headers=headers, body=b"" if sent.method == "HEAD" else body)

    def _arguments(self, sent: Sent) -> dict[str, str]:
        query = urlsplit(sent.url).query.encode() if sent.form is None else sent.form
        pairs = [part.partition(b"=") for part in query.split(b"&") if part]
        verbs = [value for name, _, value in pairs if name == b"verb"]
        if len(verbs) != 1 or verbs[0].decode() not in RULES:
            raise ProtocolError(ErrorCode.BAD_VERB, "no good verb")
        rule = RULES[Verb(verbs[0].decode())]
        names = Counter(name.decode() for name, _, _ in pairs)
        try:
            given = {name.decode(): unquote_to_bytes(value).decode() for name, _, value in pairs}
        except UnicodeDecodeError:
            raise bad("not UTF-8") from None
        exclusive = rule.exclusive in given
        needed = set() if exclusive else rule.required
        allowed = {"verb", *({str(rule.exclusive)} if exclusive else rule.allowed)}
        wrong = set(given) - allowed or set(needed) - set(given) or max(names.values()) > 1
        unwritable = not all(given.values()) or any(mark in "".join(given.values()) for mark in "\0<>")
        if wrong or unwritable:
            raise bad(f"arguments {sorted(given)}")
        return given

    def _content(self, given: dict[str, str]) -> str:
        verb = Verb(given["verb"])
        self._check_window(given)
        made: dict[Verb, Callable[[dict[str, str]], str]] = {
            Verb.IDENTIFY: lambda _: self._identify(),
            Verb.LIST_SETS: self._list_sets,
            Verb.LIST_METADATA_FORMATS: self._formats,
            Verb.GET_RECORD: self._get,
            Verb.LIST_RECORDS: self._list,
            Verb.LIST_IDENTIFIERS: self._list,
        }
        return f"<{verb}>{made[verb](given)}</{verb}>"

    def _identify(self) -> str:
        earliest = format_datestamp(BEGINNING, self.granularity)
        return (
            f"<repositoryName>Small</repositoryName><baseURL>{URL}</baseURL><protocolVersion>2.0"
            f"</protocolVersion><adminEmail>oai@small.example</adminEmail><earliestDatestamp>{earliest}"
            f"</earliestDatestamp><deletedRecord>persistent</deletedRecord><granularity>{self.granularity}"
            f"</granularity><compression>gzip</compression>{SCHEME}"
        )

    def _list_sets(self, given: dict[str, str]) -> str:
        start = self._position(given, "ListSets") if "resumptionToken" in given else 0
        written = [
            f"<set><setSpec>{spec}</setSpec><setName>{name}</setName></set>" for spec, name in self.sets
        ]
        return self._page(written, start, 2, "ListSets")

    def _formats(self, given: dict[str, str]) -> str:
        if "identifier" in given:
            self._item(given["identifier"])
        return FORMATS

    def _get(self, given: dict[str, str]) -> str:
        self._check_format(given)
        return self._record(self._item(given["identifier"]), "GetRecord")

    def _list(self, given: dict[str, str]) -> str:
        verb, start = given["verb"], 0
        if "resumptionToken" in given:
            start = self._position(given, verb)
            query = given["resumptionToken"].split("~")[2:]
            given = {"verb": verb, **dict(zip(("from", "until", "set"), query, strict=True))}
        else:
            self._check_format(given)
        found = [item for item in self.items if self._matches(item, given)]
        if not found:
            raise ProtocolError(ErrorCode.NO_RECORDS_MATCH, "nothing")
        state = "~".join([verb, *(given.get(name, "") for name in ("from", "until", "set"))])
        write = self._record if verb == "ListRecords" else self._header
        return self._page([write(item, verb) for item in found], start, self.page, state)

    def _page(self, written: list[str], start: int, size: int, state: str) -> str:
        shown = "".join(written[start : start + size])
        if start == 0 and len(written) <= size:
            return shown
        facts = f'cursor="{start}" completeListSize="{len(written)}"'
        following = start + size
        if following >= len(written):
            return f"{shown}<resumptionToken {facts}/>"
        verb, _, rest = state.partition("~")
        expires = format_datestamp(utc_now() + timedelta(hours=1))
        token = f"{verb}~{following:04}" + (f"~{rest}" if rest else "")
        return f'{shown}<resumptionToken expirationDate="{expires}" {facts}>{token}</resumptionToken>'

    def _position(self, given: dict[str, str], verb: str) -> int:
        token = given["resumptionToken"]
        own, _, rest = token.partition("~")
        if own != verb or not rest[:4].isdigit():
            raise ProtocolError(ErrorCode.BAD_RESUMPTION_TOKEN, "not given out here")
        if self.forgetful is not None:
            self.forgetful[token] += 1
            if self.forgetful[token] > 1:
                raise ProtocolError(ErrorCode.BAD_RESUMPTION_TOKEN, "used before")
        return int(rest[:4])

    def _matches(self, item: Item, given: dict[str, str]) -> bool:
        against = self.chosen(item, given)
        if against is not None:
            return against
        moment = item.moment
        if self.granularity is Granularity.DAY:
            moment = moment.replace(hour=0, minute=0, second=0)
        begin, end, spec = (given.get(name, "") for name in ("from", "until", "set"))
        inside = any(known == spec or known.startswith(f"{spec}:") for known in item.set_specs)
        return (
            (not begin or parse_datestamp(begin).moment <= moment)
            and (not end or moment <= parse_datestamp(end).last_second)
            and (not spec or inside)
        )

    def _check_window(self, given: dict[str, str]) -> None:
        try:
            dates = [parse_datestamp(given[name]) for name in ("from", "until") if name in given]
        except ValueError as error:
            raise bad(str(error)) from None
        kinds = {date.granularity for date in dates}
        finer = self.granularity is Granularity.DAY and Granularity.SECOND in kinds
        if finer or len(kinds) > 1 or (len(dates) > 1 and dates[0].moment > dates[1].moment):
            raise bad("no good window")

    def _check_format(self, given: dict[str, str]) -> None:
        if given["metadataPrefix"] != "oai_dc":
            raise ProtocolError(ErrorCode.CANNOT_DISSEMINATE_FORMAT, "only oai_dc")

    def _item(self, identifier: str) -> Item:
        for item in self.items:
            if item.identifier == identifier:
                return item
        raise ProtocolError(ErrorCode.ID_DOES_NOT_EXIST, "no such item")

    def _header(self, item: Item, verb: str) -> str:
        item = self.served(item, verb)
        status = ' status="deleted"' if item.deleted else ""
        sets = "".join(f"<setSpec>{spec}</setSpec>" for spec in item.set_specs)
        return (
            f"<header{status}><identifier>{item.identifier}</identifier>"
            f"<datestamp>{format_datestamp(item.moment, self.granularity)}</datestamp>{sets}</header>"
        )

    def _record(self, item: Item, verb: str) -> str:
        metadata = "" if item.deleted else f"<metadata>{DC.format(item.identifier)}</metadata>"
        return f"<record>{self._header(item, verb)}{metadata}</record>"


def bad(reason: str) -> ProtocolError:
    """A badArgument."""
    return ProtocolError(ErrorCode.BAD_ARGUMENT, reason)


def changed(received: Received, **changes: Any) -> Received:
    """An answer with other status, headers or body."""
    return replace(received, **changes)
