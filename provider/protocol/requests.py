"""Checks raw arguments: returns a valid request, or reports everything that is wrong with them.

Source: OAI-PMH 2.0, sections 3.1.1, 3.6 and 4. This module does not access the database: errors that
depend on the data (an unknown identifier, an empty list) are found by the handlers of
`provider.protocol.verbs`.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import unquote_to_bytes

from oai.datestamps import Datestamp, parse_datestamp
from oai.errors import ProtocolError, ZatvaError
from oai.vocabulary import RULES, ErrorCode, Verb, VerbRule
from provider.holdings.sets import is_set_spec

Pairs = list[tuple[str, str]]

_PREFIX: Final = re.compile(r"[A-Za-z0-9\-_.!~*'()]+")
# A URI reference (RFC 3986), also with non-ASCII letters, because the schema's anyURI allows them.
_UNIT: Final = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2}|[^\x00-\x7f])"
_TAIL: Final = rf"(?:/{_UNIT}*)*(?:\?(?:{_UNIT}|[/?])*)?(?:#(?:{_UNIT}|[/?])*)?"
_URI: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:(?!//){_UNIT}*{_TAIL}|(?!//)(?:(?!:){_UNIT})*{_TAIL}")
_AUTHORITY: Final = rf"//(?:(?:(?!@){_UNIT})*@)?(?:[A-Za-z0-9\-._~]|[^\x00-\x7f])*(?::[0-9]{{1,5}})?"
_WEB_ADDRESS: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_AUTHORITY}{_TAIL}")
_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SHOWN_CHARACTERS: Final = 80
_SHOWN_NAMES: Final = 5


class RefusedRequestError(ZatvaError):
    """A request that is answered with one or more protocol errors.

    `arguments` are those that the answer's `request` element repeats: none after badVerb or badArgument.
    `verb` is the requested verb, None after badVerb.
    """

    def __init__(
        self, errors: Iterable[ProtocolError], arguments: Mapping[str, str], verb: Verb | None
    ) -> None:
        self.errors = tuple(errors)
        self.verb = verb
        self.arguments = {} if any(error.code in _SILENCING for error in self.errors) else dict(arguments)
        super().__init__("; ".join(map(str, self.errors)))


_SILENCING: Final = frozenset({ErrorCode.BAD_VERB, ErrorCode.BAD_ARGUMENT})


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request whose arguments are all allowed, complete and well-formed."""

    verb: Verb
    arguments: Mapping[str, str]
    """As received, including `verb`."""
    from_: datetime | None = None
    """First moment of the requested date range, UTC."""
    until: datetime | None = None
    """Last second of the requested date range, UTC."""

    def refusal(self, *errors: ProtocolError) -> RefusedRequestError:
        """Return the refusal of this request for reasons found in the data."""
        return RefusedRequestError(errors, self.arguments, self.verb)


def read_pairs(encoded: bytes) -> Pairs:
    """Parse `name=value&…` as in URLs and forms.

    Bytes that are not UTF-8 become lone surrogates, which `check_request` refuses.
    """
    pairs = (part.partition(b"=") for part in encoded.split(b"&") if part)
    return [(_decoded(name), _decoded(value)) for name, _, value in pairs]


def _decoded(encoded: bytes) -> str:
    return unquote_to_bytes(encoded.replace(b"+", b" ")).decode("utf-8", errors="surrogateescape")


def check_request(pairs: Pairs, prefixes: Container[str]) -> Request:
    """Check the arguments of a request; `prefixes` are the offered metadata formats.

    Raises RefusedRequestError with all errors. If an unknown format is the only one, the handler reports
    it, because it may find further errors.
    """
    verb = _verb([value for name, value in pairs if name == "verb"])
    arguments = dict(pairs)
    rule = RULES[verb]
    complaints = [*_argument_errors(pairs, rule, verb), *_missing(arguments, rule, verb)]
    complaints += [
        complaint
        for name, value in arguments.items()
        if name in _SYNTAX and name in rule.allowed and (complaint := _complaint(name, value))
    ]
    window = _Window(arguments)
    complaints += window.complaints
    if complaints:
        errors = [ProtocolError(ErrorCode.BAD_ARGUMENT, complaint) for complaint in complaints]
        prefix = arguments.get("metadataPrefix")
        if prefix and "metadataPrefix" in rule.allowed and prefix not in prefixes:
            errors.append(unknown_format(prefix))
        raise RefusedRequestError(errors, arguments, verb)
    return Request(verb=verb, arguments=arguments, from_=window.from_, until=window.until)


def unknown_format(prefix: str) -> ProtocolError:
    """Return the error for a metadataPrefix that this repository does not offer."""
    return ProtocolError(
        ErrorCode.CANNOT_DISSEMINATE_FORMAT,
        f"metadataPrefix {shown(prefix)} is not supported; see ListMetadataFormats",
    )


def shown(value: str) -> str:
    """Return a value for a message: quoted, without control characters, truncated if long."""
    return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…")


def is_uri(identifier: str) -> bool:
    """Return whether the identifier is a URI, so that a request can name it."""
    written = _URI.fullmatch(identifier) or _WEB_ADDRESS.fullmatch(identifier)
    return bool(identifier and written) and not _FORBIDDEN.search(identifier)


def _verb(given: list[str]) -> Verb:
    if len(given) == 1 and given[0] in RULES:
        return Verb(given[0])
    found = f"unknown verb {shown(given[0])}" if given else "the argument verb is missing"
    if len(given) > 1:
        found = f"the argument verb is given {len(given)} times"
    bad = ProtocolError(ErrorCode.BAD_VERB, f"{found}; the verbs are {', '.join(sorted(RULES))}")
    raise RefusedRequestError([bad], {}, None)


def _argument_errors(pairs: Pairs, rule: VerbRule, verb: Verb) -> Iterable[str]:
    """Yield complaints about arguments that the verb does not accept, or that are repeated."""
    counts = Counter(name for name, _ in pairs)
    unknown = [name for name in counts if name != "verb" and name not in rule.allowed]
    if unknown:
        yield f"{verb} does not accept the argument {_names(unknown)}"
    repeated = [name for name, count in counts.items() if count > 1 and name not in unknown]
    if repeated:
        yield f"arguments given more than once: {_names(repeated)}"


def _missing(arguments: Mapping[str, str], rule: VerbRule, verb: Verb) -> Iterable[str]:
    """Yield complaints about missing required arguments; the exclusive argument replaces all others."""
    if rule.exclusive and rule.exclusive in arguments:
        others = [name for name in arguments if name in rule.required | rule.optional]
        if others:
            yield f"{rule.exclusive} is an exclusive argument; remove {_names(others)}"
        return
    missing = sorted(rule.required - arguments.keys())
    if missing:
        yield f"{verb} requires the argument {_names(missing)}"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(shown(name) for name in names[:_SHOWN_NAMES]) + more


def _complaint(name: str, value: str) -> str | None:
    if _FORBIDDEN.search(value):
        return f"{name} {shown(value)} has control characters or bytes that are not UTF-8"
    return _SYNTAX[name](value)


def _date_complaint(value: str) -> str | None:
    try:
        parse_datestamp(value)
    except ValueError as error:
        return str(error) if len(value) <= _SHOWN_CHARACTERS else f"{shown(value)} is not a datestamp"
    return None


def _prefix_complaint(value: str) -> str | None:
    return None if _PREFIX.fullmatch(value) else f"{shown(value)} is not a valid metadataPrefix"


def _set_complaint(value: str) -> str | None:
    return None if is_set_spec(value) else f"{shown(value)} is not a valid setSpec"


def _identifier_complaint(value: str) -> str | None:
    return None if is_uri(value) else f"identifier {shown(value)} is not a valid URI"


_SYNTAX: Final[Mapping[str, Callable[[str], str | None]]] = {
    "from": _date_complaint,
    "until": _date_complaint,
    "identifier": _identifier_complaint,
    "metadataPrefix": _prefix_complaint,
    "set": _set_complaint,
    "resumptionToken": lambda _: None,
}


class _Window:
    """The bounds `from` and `until` (section 2.7.1), and the complaints about their combination."""

    def __init__(self, arguments: Mapping[str, str]) -> None:
        begin, end = (_datestamp(arguments.get(name)) for name in ("from", "until"))
        self.from_ = begin.moment if begin else None
        self.until = end.last_second if end else None
        self.complaints: list[str] = []
        if not (begin and end):
            return
        if begin.granularity is not end.granularity:
            self.complaints.append(f"from {begin} and until {end} have different granularities")
        elif begin.moment > end.moment:
            self.complaints.append(f"from {begin} is later than until {end}")


def _datestamp(value: str | None) -> Datestamp | None:
    if value is None or _date_complaint(value):
        return None
    return parse_datestamp(value)
