"""Faults of a provider, each of which must be found by a check."""

import gzip
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from oai.datestamps import parse_datestamp
from provider.checking.transport import Received, Sent
from tests.provider.checking.small_provider import FORMATS, Item, changed, items

After = Callable[[Sent, Received], Received]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, the attributes that give it to the small provider, and the checks that fail."""

    name: str
    parts: dict[str, Any]
    fails: frozenset[str]


def text(pattern: str, new: str, *, where: str = "") -> dict[str, After]:
    """Replace matching text in answers to requests that contain `where`."""

    def after(sent: Sent, received: Received) -> Received:
        if where not in str(sent) or sent.encoding == "gzip":
            return received
        body = re.sub(pattern, new, received.body.decode(), flags=re.DOTALL)
        return changed(received, body=body.encode())

    return {"after": after}


def answer(**changes: Any) -> dict[str, After]:
    """Change something of every answer."""
    return {"after": lambda _sent, received: changed(received, **changes)}


def header(name: str, value: str, *, where: str = "") -> dict[str, After]:
    """Change a field of the HTTP header."""

    def after(sent: Sent, received: Received) -> Received:
        if where not in str(sent):
            return received
        return changed(received, headers={**received.headers, name: value})

    return {"after": after}


def method(name: str, status: int) -> dict[str, After]:
    """Refuse a method."""

    def after(sent: Sent, received: Received) -> Received:
        return changed(received, status=status, body=b"no") if sent.method == name else received

    return {"after": after}


def without(name: str) -> dict[str, Callable[[dict[str, str]], dict[str, str]]]:
    """Ignore an argument."""
    return {
        "ask": lambda given: {key: value for key, value in given.items() if key != name or "Token" in key}
    }


def only(choose: Callable[[Item, dict[str, str]], bool | None]) -> dict[str, Any]:
    """Filter lists by another rule."""
    return {"chosen": choose}


def shown(**changes: Any) -> dict[str, Any]:
    """Change every item in lists and in GetRecord."""
    return {"served": lambda item, _verb: replace(item, **changes)}


def fault(name: str, parts: dict[str, Any], fails: str) -> Fault:
    """Return a row of the table; the ids of checks are separated by blanks."""
    return Fault(name=name, parts=parts, fails=frozenset(fails.split()))


def exclusive(name: str) -> Callable[[Item, dict[str, str]], bool | None]:
    def chosen(item: Item, given: dict[str, str]) -> bool | None:
        value = given.get(name)
        if not value:
            return None
        bound = parse_datestamp(value)
        edge = bound.moment if name == "from" else bound.last_second
        return False if edge == item.moment else None

    return chosen


def parent_asked(item: Item, given: dict[str, str]) -> bool | None:
    return given["set"] in item.set_specs if given.get("set") else None


def get_differs(item: Item, verb: str) -> Item:
    return replace(item, moment=item.moment + timedelta(days=1)) if verb == "GetRecord" else item


def loses_sets(item: Item, verb: str) -> Item:
    return replace(item, set_specs=("a:b",)) if verb == "ListIdentifiers" else item


def midnights(given: dict[str, str]) -> dict[str, str]:
    days = {name: given[name] for name in ("from", "until") if len(given.get(name, "")) == len("2024-01-01")}
    return {**given, **{name: f"{day}T00:00:00Z" for name, day in days.items()}}


def any_token(given: dict[str, str]) -> dict[str, str]:
    if not given.get("resumptionToken", "").startswith("List"):
        return given
    rest = "" if given["verb"] == "ListSets" else "~~~"
    return {**given, "resumptionToken": f"{given['verb']}~0000{rest}"}


def missing_in_set(item: Item, given: dict[str, str]) -> bool | None:
    return False if given.get("set") and item.identifier.endswith(":4") else None


def missing_in_window(item: Item, given: dict[str, str]) -> bool | None:
    return False if given.get("from") and given.get("until") and item.identifier.endswith(":1") else None


def missing_as_header(item: Item, given: dict[str, str]) -> bool | None:
    return False if given["verb"] == "ListIdentifiers" and item.identifier.endswith(":4") else None


def status(code: int, of: bytes) -> dict[str, After]:
    """Answer with this HTTP status if request or answer contain this text."""

    def after(sent: Sent, received: Received) -> Received:
        return changed(received, status=code) if of in sent.url.encode() + received.body else received

    return {"after": after}


def forced_gzip() -> dict[str, After]:
    """Compress although the client does not accept it."""

    def after(sent: Sent, received: Received) -> Received:
        if sent.encoding == "gzip" or sent.method == "HEAD":
            return received
        packed = {**received.headers, "content-encoding": "gzip"}
        return changed(received, headers=packed, body=gzip.compress(received.body))

    return {"after": after}


def unpacked() -> dict[str, After]:
    """Never compress."""

    def after(sent: Sent, received: Received) -> Received:
        if sent.encoding != "gzip":
            return received
        return changed(received, headers={"content-type": "text/xml"}, body=gzip.decompress(received.body))

    return {"after": after}


def latin_1() -> dict[str, After]:
    """Write titles in Latin-1."""

    def after(sent: Sent, received: Received) -> Received:
        if sent.encoding == "gzip":
            return received
        return changed(received, body=received.body.replace(b"Title of", b"Titl\xe9 of"))

    return {"after": after}


def further_format(prefix: str) -> dict[str, After]:
    """Offer a further format, in which no record is available."""
    offered = FORMATS.replace("oai_dc<", f"{prefix}<").replace("oai_dc/", "other/")
    return text("</ListMetadataFormats>", f"{offered}</ListMetadataFormats>")


def unavailable() -> dict[str, After]:
    """Offer a format in which no item exists."""
    offering = further_format("other")["after"]

    def after(sent: Sent, received: Received) -> Received:
        received = offering(sent, received)
        if not sent.url.endswith("metadataPrefix=other"):
            return received
        body = received.body.replace(b"cannotDisseminateFormat", b"idDoesNotExist")
        return changed(received, body=body)

    return {"after": after}


def shifted(**by: int) -> dict[str, Any]:
    """Move the datestamps of all items by this amount."""
    return {"items": [replace(item, moment=item.moment + timedelta(**by)) for item in items()]}


class Shuffled(list[Item]):
    """Items in a different order each time."""

    def __iter__(self) -> Iterator[Item]:
        self.append(self.pop(0))
        return super().__iter__()


DC_TITLE = "<dc:title>[^<]*</dc:title>"
