"""The commands that `yaz-client` is given, and what it says to them; does no input or output.

Source: the YAZ User's Guide and Reference, "yaz-client" (Index Data).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harvester.reading.errors import BadArgumentError, CannotDisseminateFormatError, OaiError
from oai.errors import UsageError

LONGEST_QUERY: Final = 4096
"""Bytes. `yaz-client` cuts a line of 10,240 bytes in two, and takes the second part for a command."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_HITS: Final = re.compile(r"^Number of hits: ([0-9]{1,18})", re.MULTILINE)
_RECORDS: Final = re.compile(r"^Records: ([0-9]{1,9})$", re.MULTILINE)
_DIAGNOSTIC: Final = re.compile(r"^ +\[([0-9]+)\] (.*)$", re.MULTILINE)
_WRONG_QUERY: Final = re.compile(r"^Prefix query error: (.*)$", re.MULTILINE)
_PRESENT: Final = re.compile(r"^(?:Z> )*Sent presentRequest", re.MULTILINE)
_SERVER: Final = tuple(re.compile(f"^{word} *: (.*)$", re.MULTILINE) for word in ("Name", "Version"))
_CONNECTED: Final = "Connection accepted by"
_REJECTED: Final = "Connection rejected by"
_OUT_OF_RANGE: Final = "13"
_NO_SYNTAX: Final = frozenset({"227", "238", "239"})


class Z3950Error(OaiError):
    """The server's diagnostic, of the set Bib-1; `code` is `diagnostic` and its number."""


class Z3950FormatError(Z3950Error, CannotDisseminateFormatError):
    """The server does not give records in that syntax."""


class Z3950QueryError(Z3950Error, BadArgumentError):
    """The query is not what `yaz-client` takes."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a session of `yaz-client` said."""

    connected: bool
    rejected: bool
    size: int | None
    """How many records the search found."""
    came: int
    """How many records it was given."""
    diagnostic: tuple[str, str] | None
    """Number and words, of the search or of the records."""
    wrong_query: str
    server: str
    """Its name and version, as it tells them."""
    where: str
    """What it said of the connection, in one line."""


def check_query(query: str) -> str:
    """The query. Raises UsageError where it could be more than one command, or is none."""
    found = _CONTROL.search(query)
    if found is not None:
        raise UsageError(f"the query contains {found[0]!r}; write it on one line")
    if not query.strip():
        raise UsageError(
            "Z39.50 cannot request all records; give a query in PQF with --query, such as '@attr "
            '1=4 "water"\''
        )
    size = len(query.encode())
    if size > LONGEST_QUERY:
        raise UsageError(f"the query has {size:,} bytes; give at most {LONGEST_QUERY:,}")
    return query


def searching(query: str, *, start: int, most: int) -> Sequence[str]:
    """The lines that search, and show so many records from position `start` on. Raises UsageError."""
    search = ["format usmarc", f"find {check_query(query)}"]
    return [*search, f"show {start}+{most}"] if most else search


def read_told(said: str) -> Told:
    """What a session said. Of a record's text nothing is taken for the client's own words before it."""
    parted = _PRESENT.search(said)
    before = said[: parted.start()] if parted else said
    behind = said[parted.start() :] if parted else ""
    hits, came = _HITS.search(before), _RECORDS.search(behind)
    diagnostic = _DIAGNOSTIC.search(before) or (None if came else _DIAGNOSTIC.search(behind))
    wrong = _WRONG_QUERY.search(before)
    return Told(
        connected=_CONNECTED in before,
        rejected=_REJECTED in before,
        size=int(hits[1]) if hits else None,
        came=int(came[1]) if came else 0,
        diagnostic=(diagnostic[1], diagnostic[2].strip()) if diagnostic else None,
        wrong_query=wrong[1] if wrong else "",
        server=" ".join(found[1].strip() for match in _SERVER if (found := match.search(before)))[:200],
        where=" ".join(before.replace("Z> ", " ").split())[:200],
    )


def is_out_of_range(error: Z3950Error) -> bool:
    """Whether records were asked for that there are not, or that the server does not give."""
    return error.code == f"diagnostic {_OUT_OF_RANGE}"


def error_of(told: Told, url: str) -> Z3950Error | None:
    """The error that the session ended with; None where it did not."""
    if told.wrong_query:
        words = f"the query is not valid PQF: {told.wrong_query}"
        return Z3950QueryError(url, "query", words)
    if told.diagnostic is None:
        return None
    number, words = told.diagnostic
    if number in _NO_SYNTAX:
        return Z3950FormatError(url, f"diagnostic {number}", f"{words}; the server does not return MARC 21")
    advice = "; narrow the query and harvest in parts" if number == _OUT_OF_RANGE else ""
    return Z3950Error(url, f"diagnostic {number}", words + advice)
