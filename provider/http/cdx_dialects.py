"""The dialects of CDX servers, as one table: what each understands, and where they differ.

The same arguments mean different things to pywb, outbackcdx and OpenWayback's CDX server, above all the
marks of filters. Each dialect here is a row of facts that `provider.http.cdx_arguments` follows; the texts
are in `provider.http.cdx_output`. Sources: pywb 2.10 (`warcserver/index`), outbackcdx 1.2 (`Query`,
`Filter`, `WbCdxApi`), OpenWayback (`CDXServer`, `FieldRegexFilter`, README of wayback-cdx-server).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from provider.holdings.capture import (
    FIELDS,
    FILTERS,
    Field,
    FilterSyntax,
    FoundCapture,
    contains,
    equals,
    matches_beginning,
    matches_whole,
)
from provider.holdings.index_reads import ReadOrder
from provider.holdings.lookup import MatchType, read_wildcard
from provider.http.cdx_output import (
    NONE,
    Output,
    cdxj_lines,
    json_lines,
    outbackcdx_cdxj,
    outbackcdx_objects,
    outbackcdx_rows,
    pywb_cdxj,
    pywb_json,
    text_lines,
    wayback_rows,
)

RANGE: Final = "range"
"""The match type of outbackcdx for all keys from that of the URL on."""
EARLIEST: Final = "00000101000000"
"""The digits for those omitted at the end of a time, for its beginning."""
LATEST: Final = "99991231235959"
"""Those for its end."""
_MATCHES: Final = tuple(MatchType)
_EVERYWHERE: Final = (
    "dialect", "url", "matchType", "from", "to", "closest", "sort", "limit", "filter", "output", "fl",
    "showResumeKey", "resumeKey",
)  # fmt: skip
_NO: Final = ("false", "0")
_EITHER: Final = ("false", "0", "true", "1")
_FIRST_PAGE: Final = {"page": ("0",)}
"""The index has no pages, so the first is everything; cdx_toolkit requests it, and ends at the next one."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a CDX server understands, as far as it differs from the others."""

    arguments: tuple[str, ...]
    """All that have a meaning."""
    repeatable: frozenset[str] = frozenset({"filter"})
    inert: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments that change nothing here, with the values for which this is true."""
    matches: tuple[str, ...] = _MATCHES
    wildcard: Callable[[str], tuple[str, MatchType]] = read_wildcard
    """Reads the asterisk in a URL without a match type."""
    dates_of_one_url: bool = False
    """Whether `from` and `to` need an exact match in the order of time."""
    sorts: Mapping[str, ReadOrder]
    """The values of `sort`; the first is the default."""
    reverse_flag: bool = False
    """Whether `reverse=1` is the same as `sort=reverse`."""
    closest_alone: bool = False
    """Whether `closest` without `sort=closest` sorts, too."""
    closest_first: bool = False
    """Whether `closest` beats `sort=reverse`."""
    closest_now: bool = False
    """Whether `closest` may be the word `now`."""
    closest_rest: str = EARLIEST
    """The digits for those omitted at its end."""
    sorts_many: bool = False
    """Whether captures of several URLs are sorted, too."""
    sorted_last: frozenset[ReadOrder] = frozenset()
    """The orders that are made of what collapsing has left; in others, it compares neighbours in them."""
    filters: FilterSyntax
    collapses: tuple[str, ...] = ()
    """Arguments `field[:n]` that keep the first of adjacent captures."""
    collapses_last: str | None = None
    """The argument that keeps the last of them."""
    collapses_time: str | None = None
    """The argument that keeps the first with the same digits of the time and the same status."""
    best_status: bool = False
    """Whether the argument for time keeps those with better and better status instead."""
    counts_back: bool = False
    """Whether `limit` may be negative, for the last captures, and 0, for the most."""
    columns: Mapping[str, Field]
    """The fields of an answer without `fl`, by their names in it."""
    names: Mapping[str, Field]
    """All names of fields."""
    canonical: Mapping[str, str] = field(default_factory=dict)
    """Names that an answer shows under another name."""
    outputs: Mapping[str, Output]
    """The first is the default."""
    key_header: str | None = None
    """Header field with the key of the URL."""
    refuse: Callable[[str], tuple[str, str]] = lambda reason: ("text/plain", f"400: {reason}\n")
    """Returns the content type and text of an answer to a wrong request."""


def _length(one: FoundCapture) -> str:
    return NONE if one.packed_length is None else str(one.packed_length)


_WITH_LENGTH: Final = {**FIELDS, "length": _length}
_ONE_LETTER: Final = {
    "u": "url", "m": "mime", "s": "length", "l": "length", "o": "offset", "d": "digest", "t": "timestamp",
    "k": "urlkey", "f": "filename",
}  # fmt: skip
_LONG: Final = {"original": "url", "mimetype": "mime", "statuscode": "status"}


def _renamed(names: Mapping[str, str]) -> dict[str, Field]:
    """Return the fields under other names."""
    return {other: _WITH_LENGTH[name] for other, name in names.items()}


def _columns(names: str) -> dict[str, Field]:
    """Return fields by their names in an answer."""
    known = {**_WITH_LENGTH, **_renamed({**_LONG, "redirecturl": "redirect"})}
    return {name: known[name] for name in names.split()}


def _pywb_status(one: FoundCapture) -> str:
    """Return the status as pywb's indexer does, which reads it of responses only."""
    return FIELDS["status"](one) if one.record_type == "response" else NONE


_PYWB_FIELDS: Final = {
    **_WITH_LENGTH,
    **_renamed(_LONG),
    "status": _pywb_status,
    "statuscode": _pywb_status,
}
_PYWB_COLUMNS: Final = {
    name: _PYWB_FIELDS[name]
    for name in ("urlkey", "timestamp", "url", "mime", "status", "digest", "length", "offset", "filename")
}
_OUTBACK_COLUMNS: Final = _columns(
    "urlkey timestamp url mime status digest redirecturl robotflags length offset filename"
)
_WAYBACK_COLUMNS: Final = _columns(
    "urlkey timestamp original mimetype statuscode digest redirect robotflags length offset filename"
)
_BOTH_FAMILIES: Final = {**_WITH_LENGTH, **_OUTBACK_COLUMNS, **_WAYBACK_COLUMNS}


def _compared(read: Field) -> Field:
    """Return a field as pywb's filters compare it: empty without a value."""
    return lambda one: "" if (value := read(one)) == NONE else value


def _pywb_line(one: FoundCapture) -> str:
    """Return the whole line as pywb compares it."""
    return json.dumps({name: value for name, read in _PYWB_COLUMNS.items() if (value := read(one)) != NONE})


def _wayback_line(one: FoundCapture) -> str:
    return " ".join(read(one) for read in _WAYBACK_COLUMNS.values())


def _suffix_first(url: str) -> tuple[str, MatchType]:
    """Return the URL and the match type as outbackcdx does, which looks at the end first."""
    if url.endswith("*"):
        return url.removesuffix("*"), MatchType.PREFIX
    return read_wildcard(url)


def _json_message(reason: str) -> tuple[str, str]:
    return "application/json", json.dumps({"message": reason}) + "\n"


def _outputs(**outputs: tuple[str, Callable[..., str]]) -> dict[str, Output]:
    return {name: Output(content_type=kind, write=write) for name, (kind, write) in outputs.items()}


OWN: Final = "zatva"
DIALECTS: Final[Mapping[str, Dialect]] = {
    OWN: Dialect(
        arguments=(
            "url", "matchType", "from", "to", "closest", "sort", "limit", "filter", "collapse", "output",
            "fl", "fields", "showResumeKey", "resumeKey", "dialect",
        ),
        inert=_FIRST_PAGE,
        sorts={
            "default": ReadOrder.FORWARD, "closest": ReadOrder.CLOSEST, "reverse": ReadOrder.REVERSE
        },
        closest_alone=True,
        filters=FILTERS,
        collapses=("collapse",),
        columns=FIELDS,
        names={**FIELDS, **{other: FIELDS[name] for other, name in _LONG.items()}},
        canonical=_LONG,
        outputs=_outputs(
            text=("text/plain", text_lines),
            json=("application/x-ndjson", json_lines),
            cdxj=("text/x-cdxj", cdxj_lines),
        ),
    ),
    "pywb": Dialect(
        arguments=(*_EVERYWHERE, "from_ts", "reverse", "fields", "collapseTime"),
        inert={
            "allowFuzzy": _NO, "nosource": _EITHER, "resolveRevisits": _NO, "showNumPages": _NO,
            "showPagedIndex": _NO, **_FIRST_PAGE,
        },
        sorts={
            "default": ReadOrder.FORWARD, "closest": ReadOrder.CLOSEST, "reverse": ReadOrder.REVERSE
        },
        reverse_flag=True,
        closest_alone=True,
        closest_first=True,
        closest_now=True,
        closest_rest=LATEST,
        sorts_many=True,
        sorted_last=frozenset({ReadOrder.CLOSEST, ReadOrder.REVERSE}),
        filters=FilterSyntax(
            marks={"": contains, "=": equals, "~": matches_beginning},
            fields={
                name: _compared(read) for name, read in {**_PYWB_FIELDS, **_renamed(_ONE_LETTER)}.items()
            },
            whole_line=_pywb_line,
        ),
        collapses_time="collapseTime",
        columns=_PYWB_COLUMNS,
        names=_PYWB_FIELDS,
        canonical=_LONG,
        outputs=_outputs(
            cdxj=("text/x-cdxj", pywb_cdxj),
            json=("text/x-ndjson", pywb_json),
            text=("text/plain", text_lines),
        ),
        refuse=_json_message,
    ),
    "outbackcdx": Dialect(
        arguments=(*_EVERYWHERE, "collapse", "collapseToFirst", "collapseToLast"),
        inert={"omitSelfRedirects": ("false",), "method": ("GET",), **_FIRST_PAGE},
        matches=(*_MATCHES, RANGE),
        wildcard=_suffix_first,
        dates_of_one_url=True,
        sorts={
            "default": ReadOrder.FORWARD, "closest": ReadOrder.CLOSEST, "reverse": ReadOrder.REVERSE
        },
        filters=FilterSyntax(
            marks={"": matches_whole, "~": contains}, negated_first=False, fields=_BOTH_FAMILIES
        ),
        collapses=("collapseToFirst", "collapse"),
        collapses_last="collapseToLast",
        columns=_OUTBACK_COLUMNS,
        names=_BOTH_FAMILIES,
        outputs=_outputs(
            cdx=("text/plain", text_lines),
            json=("application/json", outbackcdx_rows),
            jsondict=("application/json", outbackcdx_objects),
            cdxj=("text/x-cdxj", outbackcdx_cdxj),
        ),
        key_header="outbackcdx-urlkey",
    ),
    "openwayback": Dialect(
        arguments=(*_EVERYWHERE, "collapse", "collapseTime", "last", "offset"),
        repeatable=frozenset({"filter", "collapse"}),
        inert={
            "gzip": _EITHER, "fastLatest": _NO, "resolveRevisits": _NO, "showDupeCount": _NO,
            "showGroupCount": _NO, "showUniqCount": _NO, "lastSkipTimestamp": _NO, "showNumPages": _NO,
            "showPagedIndex": _NO, **_FIRST_PAGE,
        },
        sorts={
            "regular": ReadOrder.FORWARD, "closest": ReadOrder.CLOSEST, "reverse": ReadOrder.REVERSE
        },
        sorts_many=True,
        sorted_last=frozenset({ReadOrder.CLOSEST}),
        filters=FilterSyntax(
            marks={"": matches_whole, "~": contains},
            negated_first=False,
            fields={
                **_BOTH_FAMILIES,
                **{str(number): read for number, read in enumerate(_WAYBACK_COLUMNS.values())},
            },
            whole_line=_wayback_line,
        ),
        collapses=("collapse",),
        collapses_time="collapseTime",
        best_status=True,
        counts_back=True,
        columns=_WAYBACK_COLUMNS,
        names=_BOTH_FAMILIES,
        outputs=_outputs(text=("text/plain", text_lines), json=("application/json", wayback_rows)),
    ),
}  # fmt: skip
"""The dialects by the names in the argument `dialect` and the setting `cdx_dialect`."""


def columns_of(dialect: Dialect, names: Sequence[str]) -> list[tuple[str, Field]]:
    """Return the fields of an answer; all of the dialect without names, which are known ones."""
    if not names:
        return list(dialect.columns.items())
    return [(dialect.canonical.get(name, name), dialect.names[name]) for name in names]
