"""Arguments: which are refused with which errors, and which the response repeats."""

import string
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yarl import URL

from oai.datestamps import utc_now
from oai.errors import ProtocolError
from oai.vocabulary import RULES, ErrorCode, Verb
from provider.protocol import answers
from provider.protocol.formats import FORMATS
from provider.protocol.requests import RefusedRequestError, check_request, read_pairs
from tests.provider.answer import read_reply
from tests.provider.archive import Archive
from tests.provider.conftest import Provider, reply

KNOWN = "oai:webarchive.localdomain:KEY"
UNKNOWN = "oai:webarchive.localdomain:" + "0" * 32
LIST = "metadataPrefix=oai_dc"


async def test_arguments_in_url_and_body_are_combined(provider: Provider, archive: Archive) -> None:
    archive.add()
    split = await provider.client.post(
        URL("/oai?verb=ListRecords", encoded=True), data={"metadataPrefix": "oai_dc"}
    )
    assert not (await reply(split)).codes
    twice = await provider.client.post(URL("/oai?verb=Identify", encoded=True), data={"verb": "Identify"})
    assert (await reply(twice)).codes == ["badVerb"]


async def test_error_messages_truncate_long_values(provider: Provider) -> None:
    answer = await provider.ask(verb="ListRecords", metadataPrefix="x" * 5000)
    assert len(answer.messages) < 300


async def test_many_unknown_arguments_get_one_error(provider: Provider) -> None:
    answer = await provider.ask_raw("verb=Identify&" + "&".join(f"a{number}=1" for number in range(1000)))
    assert answer.codes == ["badArgument"]
    assert "and 995 more" in answer.messages


_ARGUMENTS = sorted({"verb"}.union(*(rule.allowed for rule in RULES.values())))
names = st.sampled_from([*_ARGUMENTS, "other"]) | st.text(max_size=5)
values = st.one_of(
    st.text(max_size=40),
    st.text(string.printable, max_size=40),
    st.sampled_from(
        [*RULES, "oai_dc", "2020-01-01", "2020-01-01T00:00:00Z", "domain:cz", "", "//a:b", "a:/b%"]
    ),
    st.from_regex(r"[a-z:/?#\[\]@%0-9 é.]{0,20}", fullmatch=True),
    st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*Verb]), st.lists(st.tuples(names, values), max_size=4))
def test_responses_to_arbitrary_arguments_are_valid(verb: Verb, pairs: list[tuple[str, str]]) -> None:
    encoded = urlencode([("verb", verb), *pairs], errors="surrogateescape").encode()
    try:
        request = check_request(read_pairs(encoded), FORMATS)
        refusal = request.refusal(ProtocolError(ErrorCode.NO_RECORDS_MATCH, "nothing"))
    except RefusedRequestError as error:
        refusal = error
    content = answers.errors(refusal.errors)
    body = answers.envelope(utc_now(), "http://archive.example/oai", refusal.arguments, content)
    assert read_reply(body).request == dict(refusal.arguments)


@given(st.text(max_size=30) | st.from_regex(r"[a-z:/?#\[\]@%0-9 é.]{0,20}", fullmatch=True))
def test_an_identifier_is_accepted_only_if_the_response_may_repeat_it(identifier: str) -> None:
    pairs = [("verb", "ListMetadataFormats"), ("identifier", identifier)]
    try:
        request = check_request(pairs, FORMATS)
    except RefusedRequestError:
        return
    content = answers.errors([ProtocolError(ErrorCode.ID_DOES_NOT_EXIST, "unknown")])
    body = answers.envelope(utc_now(), "http://archive.example/oai", request.arguments, content)
    assert read_reply(body).request["identifier"] == identifier


@pytest.mark.parametrize(("number", "reported"), [(4, 4), (5, 5), (7, 5)])
async def test_only_the_first_five_unknown_arguments_are_reported(
    provider: Provider, number: int, reported: int
) -> None:
    query = "&".join(f"x{one}=1" for one in range(number))
    message = (await provider.ask_raw(f"verb=Identify&{query}")).root.findtext("{*}error") or ""
    assert message.count("x") - message.count("ex") == reported
    assert ("and 2 more" in message, "more" in message) == (number == 7, number == 7)
