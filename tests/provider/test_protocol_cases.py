"""The protocol case by case: query and method in, status, errors and elements out; every answer is valid."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from yarl import URL

from oai.database import Database
from oai.signing import signing_keys
from oai.vocabulary import OAI_NAMESPACE, Verb
from provider.protocol.requests import read_pairs
from provider.protocol.tokens import PURPOSE, ItemList, SetList, Tokens
from tests.provider.answer import Reply
from tests.provider.archive import BEGINNING
from tests.provider.conftest import Kept, Provider, reply
from tests.provider.protocol_cases import ANSWERED, REFUSED

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, kw_only=True)
class Words:
    """The values of the words in braces."""

    values: Mapping[str, str]

    def put(self, query: str) -> str:
        return re.sub(r"\{([^{}]*)\}", lambda found: self.values[found[1]], query)


@pytest.fixture(scope="module")
def identifiers(kept: Kept) -> dict[str, str]:
    """Of an archive of nine records."""
    archive = kept.archive()
    known = archive.add("http://www.example.cz/?a=1&b=<2>\u202e\U0001d11e", title="\x01<&>\U0001d11e")
    deleted = archive.add(deleted=True)
    archive.add(mime_type="image/svg+xml", collections=["collection:a:b"])
    archive.add_many(6)
    return {"known": known, "deleted": deleted, "quoted": quote(known, safe="")}


@pytest.fixture
async def words(reading: Provider, identifiers: dict[str, str], kept_database: Database) -> Words:
    """What queries about the archive need."""
    values = dict(identifiers)
    for verb in ("ListRecords", "ListIdentifiers", "ListSets"):
        prefix = {} if verb == "ListSets" else {"metadataPrefix": "oai_dc"}
        values[f"token:{verb}"] = (await reading.ask(verb=verb, **prefix)).token or ""
        values[f"foreign:{verb}"] = Tokens([b"another key"], timedelta(hours=1)).write(
            _state(verb), datetime.now(UTC)
        )
        values[f"expired:{verb}"] = own_tokens(kept_database).write(_state(verb), BEGINNING)
    return Words(values=values)


def own_tokens(database: Database) -> Tokens:
    with database.session() as session:
        return Tokens(signing_keys(session, PURPOSE), timedelta(hours=1))


def _state(verb: str) -> ItemList | SetList:
    if verb == "ListSets":
        return SetList()
    return ItemList(
        verb=Verb(verb), metadata_prefix="oai_dc", set_spec=None, from_=None, until=datetime.now(UTC)
    )


def cases(table: Mapping[str, Sequence[object]]) -> int:
    return sum(map(len, table.values()))


async def asked(provider: Provider, method: str, query: str) -> Reply:
    if method == "GET":
        return await provider.ask_raw(query)
    if method == "POST":
        return await reply(await provider.client.post("/oai", data=query.encode(), headers=FORM))
    # POST with the arguments in the URL, all of them or one half.
    cut = max(query.find("&"), 0) if method == "POST in both" else len(query)
    url = URL(f"/oai?{query[:cut]}", encoded=True)
    return await reply(await provider.client.post(url, data=query[cut:].encode(), headers=FORM))


POSTS = ["POST", "POST in the URL", "POST in both"]


def ways(number: int, config: pytest.Config) -> Sequence[str]:
    """Return how the case with this number is requested: by GET, and every third also by a kind of POST.

    The kinds of POST differ in the place of the arguments, whatever they are. `--long` requests each case
    in all ways.
    """
    if config.getoption("--long"):
        return ["GET", *POSTS]
    return ["GET"] if number % 3 else ["GET", POSTS[number // 3 % 3]]


def test_the_tables_have_at_least_150_cases() -> None:
    assert cases(REFUSED) + cases(ANSWERED) >= 150


@pytest.mark.parametrize("about", REFUSED)
async def test_invalid_requests_get_the_expected_error_codes(
    reading: Provider, words: Words, about: str, pytestconfig: pytest.Config
) -> None:
    for number, (case, codes) in enumerate(REFUSED[about]):
        query = words.put(case)
        expected = codes.split()
        silent = {"badVerb", "badArgument"} & set(expected)
        for way in ways(number, pytestconfig):
            answer = await asked(reading, way, query)
            assert answer.codes == expected, (way, case)
            assert all(answer.texts("o:error")), (way, case)
            assert answer.request == ({} if silent else dict(read_pairs(query.encode()))), (way, case)


@pytest.mark.parametrize("verb", ANSWERED)
async def test_valid_requests_are_answered_with_the_expected_elements(
    reading: Provider, words: Words, verb: str, pytestconfig: pytest.Config
) -> None:
    for number, (case, elements) in enumerate(ANSWERED[verb]):
        query = words.put(case)
        for way in ways(number, pytestconfig):
            answer = await asked(reading, way, query)
            assert not answer.codes, (way, case)
            assert answer.request == dict(read_pairs(query.encode())), (way, case)
            found = Counter(
                str(element.tag).rpartition("}")[2] for element in answer.root.iter(f"{{{OAI_NAMESPACE}}}*")
            )
            assert {name: found[name] for name in elements} == elements, (way, case)
            assert found[verb] == 1, (way, case)


@pytest.mark.parametrize("table", [REFUSED, ANSWERED], ids=["refused", "answered"])
async def test_head_returns_the_content_headers_of_get(
    reading: Provider, words: Words, table: Mapping[str, Sequence[tuple[str, object]]]
) -> None:
    plain = {"Accept-Encoding": "identity"}
    for case, _ in (group[0] for group in table.values()):
        url = URL(f"/oai?{words.put(case)}", encoded=True)
        earlier = await reading.client.get(url, headers=plain)
        head = await reading.client.head(url, headers=plain)
        # A token contains its expiry, compressed; its length can change from one second to the next.
        later = await reading.client.get(url, headers=plain)
        assert await head.read() == b""
        for header in ("Content-Type", "Content-Length", "Cache-Control"):
            assert head.headers[header] in {earlier.headers[header], later.headers[header]}, case


@pytest.mark.parametrize(
    ("method", "headers", "body", "status"),
    [
        ("POST", FORM, b"verb=Identify", 200),
        ("POST", {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}, b"verb=Identify", 200),
        ("POST", {"Content-Type": "APPLICATION/X-WWW-FORM-URLENCODED"}, b"verb=Identify", 200),
        ("POST", FORM, b"", 200),
        ("POST", {"Content-Type": "text/xml"}, b"<verb/>", 415),
        ("POST", {"Content-Type": "application/json"}, b'{"verb": "Identify"}', 415),
        ("POST", {"Content-Type": "multipart/form-data; boundary=x"}, b"--x--", 415),
        ("POST", {"Content-Type": "application/octet-stream"}, b"verb=Identify", 415),
        ("POST", FORM, b"verb=" + b"x" * 100_000, 413),
        ("PUT", FORM, b"verb=Identify", 405),
        ("DELETE", {}, b"", 405),
        ("OPTIONS", {}, b"", 405),
    ],
)
async def test_requests_outside_the_protocol_get_an_http_status(
    reading: Provider, method: str, headers: Mapping[str, str], body: bytes, status: int
) -> None:
    response = await reading.client.request(method, "/oai", data=body or None, headers=headers)
    assert response.status == status
