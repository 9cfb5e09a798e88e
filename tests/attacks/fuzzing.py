"""Invalid requests generated from the routes, and the contents that no response may have.

The same seed gives the same requests. A case is one request; `judged` returns the fault of its response.
"""

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, quote_from_bytes

import aiohttp
from lxml import html
from yarl import URL

MARK: Final = "Xyzzyowner"
"""Planted in every row that belongs to others; no request contains it."""
REFUSING: Final = "http://127.0.0.1:9"
"""Where nothing listens: the only address that requests may name."""

_SCRIPT: Final = "<script>alert(1)</script>"
_WORDS: Final = (
    *("", " ", "0", "1", "2", "-1", "99999999999999999999", "1e309", "NaN", "0x1", "1_0", "\u0663", "1.5"),
    *("\0", "\ud800", "%00", "\u202e\ufb01", "\U0001f4da", "\r\nX-Injected: 1", "a" * 10_000, "\n" * 200),
    *("'; DROP TABLE oai_record; --", "' OR 1=1 --", "$1", '" onmouseover="alert(1)', _SCRIPT, "]]>", "&x;"),
    *("{{7*7}}", "{0.__class__}", "%s%n%(x)s", "${x}", "=1+1", "(a+)+$", "[[:", "\\", "*", "~", ",,", ";"),
    *("../../../../etc/passwd", "/etc/passwd", "C:\\x", "javascript:alert(1)", "file:///etc/passwd"),
    *("//evil.example", "/\\evil.example", f"{REFUSING}/oai", "http://[::1", "http://127.0.0.1:99999/"),
    *("2026-02-30", "9999-12-31T23:59:59Z", "0000-00-00", "daily at 25:00", "every 0 minutes", "* * * * *"),
    *("on", "yes", "true", "null", "all", "csv", "json", "en", "Europe/Prague", "administrator", "oai_dc"),
    *("filter", "normalise", "mail", "webhook", "pause", "collection:maps", "x@archive.example", "1:2"),
)
_NUMBERS: Final = (0, -1, 2**31, 2**63, 10**30, 1.5, 1e308)
_PLACES: Final = ("0", "-1", "00", "1%00", "%2e%2e", "%D9%A3", "a'b", "%ff", "999999999", "9" * 18, "9" * 40)
_HEADERS: Final[Sequence[Mapping[str, str]]] = (
    {"Accept-Language": "sk;q=x, \u00e9, *;q=9999"},
    {"X-Forwarded-For": "unknown, [::, 1.2.3.4.5, ,"},
    {"Host": "evil.example:99999"},
    {"Authorization": "Bearer zatva_\u00e9"},
    {"Authorization": "Basic ===="},
    {"Cookie": "zatva_session=\u00e9; zatva_session=; zatva_form"},
    {"Origin": "null"},
    {"Referer": "http://[/"},
    {"Range": "bytes=5-1, -0"},
    {"If-Modified-Since": "never", "If-None-Match": '"', "If-Range": "x"},
    {"Last-Event-ID": "a.b.c"},
    {"Accept": "application/x-unheard-of;q=0, ;;"},
    {"X-Remote-User": "Alena"},
    {"User-Agent": "<script>alert(1)</script>"},
)
_BODIES: Final[Sequence[tuple[str, bytes]]] = (
    ("application/json", b"[" * 20_000),
    ("application/json", b'{"name": "\\ud800", "x": 1e999}'),
    ("application/json", b"\xff\xfe{}"),
    ("application/json", b"null"),
    ("text/plain; charset=unheard-of", b"x"),
    ("application/x-www-form-urlencoded; charset=utf-7", b"csrf_token=%2bADw-"),
    ("application/x-www-form-urlencoded", b"&".join(b"a=%d" % n for n in range(2_000))),
    ("multipart/form-data", b"--x"),
    ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a\r\n\r\n'),
    ("application/gzip", b"\x1f\x8b"),
)
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
_VARIABLE: Final = re.compile(r"\{(\w+)[^}]*\}")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One request."""

    role: str
    method: str
    target: str
    """Path and query, encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    def __str__(self) -> str:
        sent = "" if self.body is None else f" {self.body[:300]!r}"
        return f"{self.role}: {self.method} {self.target[:300]} {dict(self.headers)}{sent}"


@dataclass(frozen=True, kw_only=True)
class Fuzzer:
    """Makes the cases of one role."""

    role: str
    chance: random.Random
    world: Mapping[str, Sequence[int | str]]
    """Numbers of objects, own and others', by the variables or the beginnings of paths."""
    forms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Fields of forms with their values, by the path to which they are sent."""
    bodies: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """JSON Schemas of bodies, by method and path."""
    queries: Sequence[str]
    """Names of query parameters and of form fields."""
    token: str = ""
    more_words: Sequence[str] = ()
    """Words that mean something to the application, beside the hostile ones."""

    def case(self, method: str, path: str) -> Case:
        """Return a request to the route: mostly valid, with something invalid in it."""
        chance = self.chance
        headers: dict[str, str] = {}
        if chance.random() < 0.2:
            headers |= chance.choice(_HEADERS)
        if chance.random() < 0.08:
            method = chance.choice(_METHODS)
        target = self._target(path)
        body = None
        if method not in ("GET", "HEAD", "TRACE"):
            kind, body = self._body(method, path)
            headers = {"Content-Type": kind, "X-CSRF-Token": self.token, **headers}
        return Case(role=self.role, method=method, target=target, headers=headers, body=body)

    def _target(self, path: str) -> str:
        target = self.plain(path, wrong=0.15)
        if self.chance.random() < 0.5:
            names = self.chance.choices(self.queries, k=self.chance.randint(1, 3))
            target += "?" + "&".join(f"{name}={self._quoted(self._word())}" for name in names)
        return target

    def plain(self, path: str, *, wrong: float = 0.0) -> str:
        """Return a path of the route, each variable invalid with this probability."""
        return _VARIABLE.sub(lambda found: self._place(found[1], path, wrong), path)

    def _place(self, name: str, path: str, wrong: float) -> str:
        if self.chance.random() < wrong:
            return self.chance.choice(_PLACES)
        known = self.world.get(name) or next(
            (numbers for start, numbers in self.world.items() if path.startswith(start)), (1,)
        )
        return quote(str(self.chance.choice(known)), safe=":")

    def _word(self) -> str:
        return self.chance.choice((*_WORDS, *self.more_words))

    def _quoted(self, word: str) -> str:
        return quote_from_bytes(word.encode("utf-8", errors="surrogatepass"))

    def _body(self, method: str, path: str) -> tuple[str, bytes]:
        if self.chance.random() < 0.1:
            return self.chance.choice(_BODIES)
        if path.startswith("/api/"):
            schema = self.bodies.get((method, path), {"type": "object"})
            given = self._value(schema, schema.get("$defs", {}))
            return "application/json", json.dumps(given).encode()
        fields = {**self.forms.get(path, {}), "csrf_token": self.token}
        for name in list(fields):
            if self.chance.random() < (0.02 if name == "csrf_token" else 0.3):
                fields[name] = self._word()
        pairs = [*fields.items(), *((self.chance.choice(self.queries), self._word()) for _ in range(2))]
        text = "&".join(f"{quote(name)}={self._quoted(value)}" for name, value in pairs)
        return "application/x-www-form-urlencoded", text.encode()

    def _value(self, schema: Mapping[str, Any], known: Mapping[str, Any], depth: int = 0) -> object:
        """Return a value that fits the schema, or, one time in ten, another."""
        chance = self.chance
        if depth > 4 or chance.random() < 0.1:
            return chance.choice((None, self._word(), chance.choice(_NUMBERS), [], {}, True))
        if "$ref" in schema:
            return self._value(known.get(schema["$ref"].rpartition("/")[2], {}), known, depth)
        choices = next((schema[word] for word in ("anyOf", "oneOf", "allOf") if word in schema), None)
        if choices is not None:
            return self._value(chance.choice(choices), known, depth)
        match schema.get("type"):
            case "object":
                wanted, properties = schema.get("required", ()), schema.get("properties", {})
                names = [name for name in properties if name in wanted or chance.random() < 0.5]
                return {name: self._value(properties[name], known, depth + 1) for name in names}
            case "array":
                items = schema.get("items", {})
                return [self._value(items, known, depth + 1) for _ in range(chance.randint(0, 3))]
            case _:
                return self._plain(schema)

    def _plain(self, schema: Mapping[str, Any]) -> object:
        if "enum" in schema:
            return self.chance.choice(schema["enum"])
        match schema.get("type"):
            case "integer" | "number":
                numbers = [number for some in self.world.values() for number in some]
                return self.chance.choice((*_NUMBERS, *filter(lambda one: isinstance(one, int), numbers)))
            case "boolean":
                return self.chance.random() < 0.5
            case _:
                return self._word()


def fields_of(page: str, path: str, routes: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the fields of the forms on the page at `path`, by the route to which each is sent."""
    found: dict[str, dict[str, str]] = {}
    for target, fields in _forms_in(page).items():
        for route in routes:
            if re.fullmatch(_VARIABLE.sub("[^/]+", route), target or path):
                found.setdefault(route, {}).update(fields)
    return found


def _forms_in(page: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for form in html.document_fromstring(page).iter("form"):
        assert isinstance(form, html.FormElement)
        path = URL(form.action or "").path
        # Administrators see others' texts in forms; sent by a partner, they would come back.
        fields = {
            name: value.replace(MARK, "x") if isinstance(value, str) else ""
            for name, value in form.form_values()
        }
        names = dict.fromkeys((name for name in form.inputs.keys() if name), "")  # noqa: SIM118 not a mapping
        found.setdefault(path, {}).update({**names, **fields})
    return found


def judged(status: int, headers: Mapping[str, str], text: str) -> str | None:
    """Return the fault of a response to any role, or None."""
    location = headers.get("Location", "/")
    if status >= 500:
        return f"status {status}"
    if "Traceback (most recent" in text or "psycopg." in text or "site-packages" in text:
        return "it shows a part of the program"
    if "X-Injected" in headers:
        return "a header was injected"
    if URL(location).absolute or location.startswith(("//", "/\\")):
        return f"it leads to {location}"
    if headers.get("Content-Type", "").startswith("text/html") and _SCRIPT in text:
        return "it contains a script of the request"
    return None


def leaked(headers: Mapping[str, str], text: str) -> str | None:
    """Return the place where a response contains data of another organisation, or None."""
    whole = "\n".join((*headers.values(), text))
    if MARK.lower() not in whole.lower():  # the expression takes a hundred times as long
        return None
    found = re.search(rf".{{0,80}}{MARK}.{{0,40}}", whole, re.IGNORECASE)
    return None if found is None else f"it names something of others: {found[0]}"


async def answer(
    http: aiohttp.ClientSession, base_url: str, case: Case
) -> tuple[int, Mapping[str, str], str]:
    """Send a case; return status, headers and text of its answer, of an event stream the first events."""
    url = URL(base_url + case.target, encoded=True)
    async with http.request(
        case.method, url, headers=case.headers, data=case.body, allow_redirects=False
    ) as received:
        if received.content_type == "text/event-stream":
            data = await received.content.readany() + await received.content.readany()
        else:
            data = await received.read()
        return received.status, received.headers, data.decode(errors="replace")
