"""What could not be read, grouped by its kind: reasons that differ in names and numbers only are one."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harvester.running.models import Quarantined
from web.words import _

_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\b\d[\d,.:]*\b|https?://\S+")

_PLAIN: Final[Sequence[tuple[re.Pattern[str], str]]] = (
    (re.compile(r"encod|UTF-8|utf-8|codec", re.IGNORECASE), "encoding"),
    (re.compile(r"PCDATA invalid Char|xmlParse"), "xml"),
    (re.compile(r"schema|not expected|not allowed|facet|valid", re.IGNORECASE), "schema"),
    (re.compile(r"identifier|datestamp|header", re.IGNORECASE), "header"),
    (re.compile(r"well-formed|parse|tag|entity|attribute|token|PCDATA|Char", re.IGNORECASE), "xml"),
    (re.compile(r"HTTP status|timed? ?out|connect", re.IGNORECASE), "http"),
)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Faults of one kind; the newest first."""

    kind: str
    plain: str
    errors: Sequence[Quarantined]


def grouped(errors: Iterable[Quarantined]) -> list[Group]:
    """The faults by kind, the largest group first."""
    found: dict[str, list[Quarantined]] = {}
    for error in errors:
        found.setdefault(_QUOTED.sub("…", error.reason), []).append(error)
    groups = [Group(kind=kind, plain=in_plain_words(kind), errors=those) for kind, those in found.items()]
    return sorted(groups, key=lambda group: -len(group.errors))


def in_plain_words(reason: str) -> str:
    """What the technical reason means to a librarian."""
    kind = next((kind for pattern, kind in _PLAIN if pattern.search(reason)), "")
    return {
        "encoding": _("The record has characters that are not in the encoding it claims to have."),
        "schema": _("The record does not fit the rules of its metadata format."),
        "header": _("The record's header lacks something, so it is not known which record it is."),
        "xml": _(
            "The record is broken XML: a bracket, a quotation mark or an ampersand stands where it may not."
        ),
        "http": _("The server did not hand the record out."),
    }.get(kind, _("The record could not be read."))
