"""What an SRU server says went wrong, as errors by its code.

Source: SRU 1.2, "Diagnostics" and "Diagnostics List"; searchRetrieve 2.0 (OASIS), Annex on diagnostics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lxml import etree

from harvester.reading.errors import (
    BadArgumentError,
    CannotDisseminateFormatError,
    ClientError,
    OaiError,
)
from oai.failures import FailureCode

_LIST: Final = "info:srw/diagnostic/1/"
UNSUPPORTED_VERSION: Final = "5"
_ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "10": "check the CQL of the query",
        "16": "the server does not support that index; to see what it offers, use `zatva probe`",
        "60": "the result exceeds the server's limit; narrow the query and harvest in parts",
        "61": "the server returns no records from this position; narrow the query and harvest in parts",
        "66": "choose another --format; to see what the server offers, use `zatva probe`",
        "67": "choose another --format; to see what the server offers, use `zatva probe`",
    }
)
_FORMAT: Final = frozenset({"66", "67"})
_QUERY: Final = frozenset(str(code) for code in (*range(10, 50),))


class SruError(OaiError):
    """The server's diagnostic; `code` is `diagnostic` and its number, or its URI where it is not standard."""

    failure_code = FailureCode.BAD_REQUEST


class SruQueryError(SruError, BadArgumentError):
    """The query is not what the server takes."""


class SruFormatError(SruError, CannotDisseminateFormatError):
    """The server does not give records in the schema."""

    failure_code = FailureCode.FORMAT_NOT_OFFERED


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One diagnostic."""

    code: str
    message: str
    details: str

    def in_words(self) -> str:
        """For messages."""
        return f"diagnostic {self.code}: {self._told}".rstrip(": ")

    @property
    def _told(self) -> str:
        return f"{self.message} ({self.details})".strip() if self.details else self.message

    def error(self, url: str) -> ClientError:
        """The error that it is."""
        kind = SruError
        if self.code in _FORMAT:
            kind = SruFormatError
        elif self.code in _QUERY:
            kind = SruQueryError
        advice = _ADVICE.get(self.code, "")
        return kind(url, f"diagnostic {self.code}", "; ".join(filter(None, (self._told, advice))))


def read_diagnostic(element: etree._Element) -> Diagnostic:
    """A `<diagnostic>` of either version, in whatever namespace."""
    found = {etree.QName(child).localname: child.text or "" for child in element.iterchildren(etree.Element)}
    uri = " ".join(found.get("uri", "").split())
    return Diagnostic(
        code=uri.removeprefix(_LIST) or "unknown",
        message=" ".join(found.get("message", "").split()),
        details=" ".join(found.get("details", "").split()),
    )
