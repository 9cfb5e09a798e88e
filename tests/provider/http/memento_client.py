"""A Memento client that sends requests and parses links as MemGator (ODU) does."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.provider.raw import connect

_ATTRIBUTES = re.compile(r'\s*>?"?\s*;\s*')
_VALUE = re.compile(r'\s*=\s*"?\s*')


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response, read without an HTTP library that could change the URL on its way."""

    status: int
    fields: list[tuple[str, str]]
    body: str

    def field(self, name: str) -> str:
        """The first field of this name; empty without one."""
        return next((value for field, value in self.fields if field.lower() == name.lower()), "")


@dataclass(frozen=True, kw_only=True)
class Memento:
    """A memento that the client accepts."""

    address: str
    moment: datetime
    rel: str


async def ask(port: int, path: str, *fields: str) -> Answer:
    """Send a GET request with this target, byte for byte."""
    client = await connect(port)
    lines = [f"GET {path} HTTP/1.1", "Host: archive.example", "Connection: close", *fields, "", ""]
    client.writer.write("\r\n".join(lines).encode())
    head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    await client.close()
    status, *lines = head.decode().split("\r\n")
    pairs = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    answer = Answer(status=int(status.split()[1]), fields=pairs, body="")
    chunked = answer.field("Transfer-Encoding") == "chunked"
    return Answer(status=answer.status, fields=pairs, body=(joined(body) if chunked else body).decode())


def joined(body: bytes) -> bytes:
    """Return the content of chunks; the last chunk must be present."""
    found = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            return found
        found, body = found + body[:length], body[length + 2 :]


async def timemap(port: int, prefix: str, url: str) -> list[Memento]:
    """The mementos in a TimeMap's body, in one request; anything but 200 has none."""
    answer = await ask(port, prefix + url)
    return mementos(answer.body) if answer.status == 200 else []


async def timegate(port: int, prefix: str, url: str, moment: datetime) -> list[Memento]:
    """The mementos in a TimeGate's first `Link` field; its redirect is not followed."""
    wanted = moment.astimezone(UTC).strftime("Accept-Datetime: %a, %d %b %Y %H:%M:%S GMT")
    answer = await ask(port, prefix + url, wanted)
    return mementos(answer.field("Link")) if answer.status in {200, 302} else []


def mementos(links: str) -> list[Memento]:
    """The links that have a date of HTTP's form, and a rel with the word memento."""
    found = []
    for link in split(links):
        address, *attributes = _ATTRIBUTES.split(link.strip('<" \t\n\r'))
        values = dict(_VALUE.split(one, maxsplit=1) for one in attributes if "=" in one)
        if "datetime" in values and re.search(r"\bmemento\b", values.get("rel", "")):
            moment = datetime.strptime(values["datetime"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
            found.append(Memento(address=address, moment=moment, rel=values["rel"]))
    return found


def split(links: str) -> list[str]:
    """The links of a list: a comma within quotation marks or an address does not end one."""
    found, begin, quoted, in_address = [], 0, False, False
    for place, letter in enumerate(links):
        if letter == '"':
            quoted = not quoted
        elif letter in "<>":
            in_address = letter == "<"
        elif letter == "," and not quoted and not in_address:
            found.append(links[begin:place])
            begin = place + 1
    return [*found, links[begin:]]
