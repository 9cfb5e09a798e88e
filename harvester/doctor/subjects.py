"""What the doctor looks at, each by its name in a report."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SUBJECTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "identify": "Answer to Identify",
        "version": "Protocol version",
        "base url": "Base URL",
        "redirects": "Redirects",
        "content type": "Content type",
        "email": "Administrator's address",
        "earliest": "Earliest datestamp",
        "granularity": "Granularity",
        "deletions": "Deleted records",
        "response date": "Response date",
        "clock": "Clock",
        "formats": "Metadata formats",
        "records": "List of records",
        "encoding": "Encoding",
        "schema": "Validity of a sample",
        "page size": "Page size",
        "size told": "List size",
        "token": "Resumption token",
        "token again": "Reused token",
        "token expiry": "Token expiry",
        "identifiers": "List of identifiers",
        "get record": "Single record",
        "from": "Bound `from`",
        "until": "Bound `until`",
        "before earliest": "Before the earliest datestamp",
        "sets": "Sets",
        "set": "Harvesting a set",
        "bad verb": "Unknown verb",
        "bad argument": "Missing argument",
        "bad token": "Invalid token",
        "bad format": "Unknown format",
        "bad identifier": "Unknown identifier",
        "post": "Requests by POST",
        "gzip": "Compression",
        "speed": "Speed",
    }
)
"""What was looked at, in the order in which reports tell it."""
