"""Arguments: what is refused with which errors, and what the answer repeats of them."""

import string
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from yarl import URL

from oai.datestamps import utc_now
from oai.errors import ProtocolError
from oai.vocabulary import ARGUMENTS, RULES, ErrorCode, Verb
from provider import answers
from provider.formats import FORMATS
from provider.requests import RefusedRequestError, check_request, read_pairs
from tests.provider.answer import Reply, read_reply
from tests.provider.archive import Archive
from tests.provider.conftest import Provider, reply

KNOWN = "oai:webarchive.localdomain:KEY"
UNKNOWN = "oai:webarchive.localdomain:" + "0" * 32
LIST = "metadataPrefix=oai_dc"

REFUSED = [
    # the verb
    ("", ["badVerb"]),
    ("verb=", ["badVerb"]),
    ("verb", ["badVerb"]),
    ("verb=Nonsense", ["badVerb"]),
    ("verb=identify", ["badVerb"]),
    ("verb=Identify%20", ["badVerb"]),
    ("verb=Identify%00", ["badVerb"]),
    ("verb=%FF", ["badVerb"]),
    ("verb=Identify&verb=Identify", ["badVerb"]),
    ("verb=Identify&verb=ListSets", ["badVerb"]),
    ("Verb=Identify", ["badVerb"]),
    ("verb=Nonsense&metadataPrefix=oai_dc&nonsense=1", ["badVerb"]),
    # unknown, repeated and missing arguments
    ("verb=Identify&test=1", ["badArgument"]),
    ("verb=Identify&test", ["badArgument"]),
    ("verb=Identify&=1", ["badArgument"]),
    ("verb=Identify&metadataPrefix=oai_dc", ["badArgument"]),
    ("verb=Identify&%00=1", ["badArgument"]),
    ("verb=Identify&%FF=%FF", ["badArgument"]),
    ("verb=ListMetadataFormats&metadataPrefix=oai_dc", ["badArgument"]),
    (f"verb=ListMetadataFormats&identifier={KNOWN}&identifier={KNOWN}", ["badArgument"]),
    ("verb=ListSets&metadataPrefix=oai_dc", ["badArgument"]),
    ("verb=ListSets&from=2020-01-01", ["badArgument"]),
    ("verb=GetRecord", ["badArgument"]),
    (f"verb=GetRecord&identifier={KNOWN}", ["badArgument"]),
    ("verb=GetRecord&metadataPrefix=oai_dc", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier={KNOWN}&set=domain", ["badArgument"]),
    ("verb=ListRecords", ["badArgument"]),
    ("verb=ListIdentifiers", ["badArgument"]),
    ("verb=ListIdentifiers&set=domain", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&{LIST}", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01&from=2020-01-02", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&From=2020-01-01", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&identifier={KNOWN}", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&nonsense=1&nonsense=2&other=3", ["badArgument"]),
    # the exclusive argument
    (f"verb=ListRecords&{LIST}&resumptionToken=x", ["badArgument"]),
    ("verb=ListRecords&resumptionToken=x&set=domain", ["badArgument"]),
    ("verb=ListRecords&resumptionToken=x&resumptionToken=x", ["badArgument"]),
    ("verb=ListRecords&resumptionToken=x", ["badResumptionToken"]),
    ("verb=ListRecords&resumptionToken=", ["badResumptionToken"]),
    ("verb=ListIdentifiers&resumptionToken=a%20%22b%22%3C", ["badResumptionToken"]),
    ("verb=ListSets&resumptionToken=x", ["badResumptionToken"]),
    ("verb=ListSets&resumptionToken=%00", ["badArgument"]),
    ("verb=ListRecords&resumptionToken=%ED%A0%80", ["badArgument"]),
    ("verb=GetRecord&resumptionToken=x", ["badArgument", "badArgument"]),
    # dates
    (f"verb=ListRecords&{LIST}&from=", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=yesterday", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-1-1", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-02-30", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=0000-01-01", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01%20", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T00:00:00", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T00:00Z", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T00:00:00.0Z", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T24:00:00Z", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T00:00:60Z", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T00:00:00%2B01:00", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T00:00:00z", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=%D9%A2%D9%A0%D9%A2%D9%A0-01-01", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01%0A", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&until=2020-13-01", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=x&until=y", ["badArgument", "badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-02&until=2020-01-01", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01&until=2020-01-01T12:00:00Z", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&from=2020-01-01T00:00:00Z&until=2020-01-02", ["badArgument"]),
    # sets
    (f"verb=ListRecords&{LIST}&set=", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=:", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=domain:", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=domain::cz", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=do%20main", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=%C5%BE", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=domain%0A", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=a%00b", ["badArgument"]),
    (f"verb=ListRecords&{LIST}&set=nonsense", ["noRecordsMatch"]),
    (f"verb=ListRecords&{LIST}&set=" + "x" * 5000, ["noRecordsMatch"]),
    # formats
    ("verb=ListRecords&metadataPrefix=nonsense", ["cannotDisseminateFormat"]),
    ("verb=ListIdentifiers&metadataPrefix=OAI_DC", ["cannotDisseminateFormat"]),
    ("verb=ListRecords&metadataPrefix=", ["badArgument"]),
    ("verb=ListRecords&metadataPrefix=oai%20dc", ["badArgument", "cannotDisseminateFormat"]),
    ("verb=ListRecords&metadataPrefix=%22", ["badArgument", "cannotDisseminateFormat"]),
    ("verb=ListRecords&metadataPrefix=x&from=y", ["badArgument", "cannotDisseminateFormat"]),
    (f"verb=GetRecord&identifier={KNOWN}&metadataPrefix=x", ["cannotDisseminateFormat"]),
    # identifiers
    (f"verb=GetRecord&{LIST}&identifier={UNKNOWN}", ["idDoesNotExist"]),
    (f"verb=GetRecord&{LIST}&identifier={KNOWN}0", ["idDoesNotExist"]),
    (f"verb=GetRecord&{LIST}&identifier=x{KNOWN}", ["idDoesNotExist"]),
    (f"verb=GetRecord&{LIST}&identifier=10", ["idDoesNotExist"]),
    (f"verb=GetRecord&{LIST}&identifier=http://example.org/%23a", ["idDoesNotExist"]),
    (f"verb=GetRecord&{LIST}&identifier=%C5%BElu%C5%A5", ["idDoesNotExist"]),
    (f"verb=GetRecord&{LIST}&identifier=" + "x" * 5000, ["idDoesNotExist"]),
    (f"verb=GetRecord&{LIST}&identifier=", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier=a%20b", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier=a+b", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier=a%22b", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier=%00", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier=%FF", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier=%EF%BF%BF", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier=%25", ["badArgument"]),
    (f"verb=GetRecord&{LIST}&identifier={KNOWN}%0A", ["badArgument"]),
    (f"verb=GetRecord&metadataPrefix=x&identifier={UNKNOWN}", ["cannotDisseminateFormat", "idDoesNotExist"]),
    (f"verb=ListMetadataFormats&identifier={UNKNOWN}", ["idDoesNotExist"]),
    ("verb=ListMetadataFormats&identifier=%5E", ["badArgument"]),
]

ACCEPTED = [
    "verb=Identify",
    "verb=Identify&",
    "&&verb=Identify",
    "verb=%49dentify",
    "verb=ListSets",
    "verb=ListMetadataFormats",
    f"verb=ListMetadataFormats&identifier={KNOWN}",
    f"verb=GetRecord&identifier={KNOWN}&{LIST}",
    f"verb=ListRecords&{LIST}",
    f"verb=ListRecords&{LIST}&set=domain:cz:example",
    f"verb=ListRecords&{LIST}&set=domain%3Acz%3aexample",
    f"verb=ListIdentifiers&{LIST}&from=2020-01-01&until=2020-01-01",
    f"verb=ListIdentifiers&{LIST}&from=2020-01-01T00:00:00Z&until=2020-01-01T00:00:00Z",
    f"verb=ListIdentifiers&{LIST}&from=2020-01-01T00%3A00%3A00Z",
]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_wrong_is_told(provider: Provider, archive: Archive, method: str) -> None:
    identifier = archive.add()
    for case, codes in REFUSED:
        query = case.replace(KNOWN, identifier)
        answer = await asked(provider, method, query)
        assert answer.codes == codes, query
        assert all(answer.texts("o:error")), query
        silent = {"badVerb", "badArgument"} & set(codes)
        assert answer.request == ({} if silent else dict(read_pairs(query.encode()))), query


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_right_is_answered_and_repeated(
    provider: Provider, archive: Archive, method: str
) -> None:
    identifier = archive.add()
    for case in ACCEPTED:
        query = case.replace(KNOWN, identifier)
        answer = await asked(provider, method, query)
        assert not answer.codes, query
        assert answer.request == dict(read_pairs(query.encode())), query


async def asked(provider: Provider, method: str, query: str) -> Reply:
    if method == "GET":
        return await provider.ask_raw(query)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    return await reply(await provider.client.post("/oai", data=query.encode(), headers=form))


async def test_arguments_in_url_and_body_are_one_list(provider: Provider, archive: Archive) -> None:
    archive.add()
    split = await provider.client.post(
        URL("/oai?verb=ListRecords", encoded=True), data={"metadataPrefix": "oai_dc"}
    )
    assert not (await reply(split)).codes
    twice = await provider.client.post(URL("/oai?verb=Identify", encoded=True), data={"verb": "Identify"})
    assert (await reply(twice)).codes == ["badVerb"]


async def test_a_message_shows_long_values_cut(provider: Provider) -> None:
    answer = await provider.ask(verb="ListRecords", metadataPrefix="x" * 5000)
    assert len(answer.messages) < 300


async def test_a_thousand_unknown_arguments_are_one_error(provider: Provider) -> None:
    answer = await provider.ask_raw("verb=Identify&" + "&".join(f"a{number}=1" for number in range(1000)))
    assert answer.codes == ["badArgument"]
    assert "and 995 more" in answer.messages


names = st.sampled_from([*ARGUMENTS, "other"]) | st.text(max_size=5)
values = st.one_of(
    st.text(max_size=40),
    st.text(string.printable, max_size=40),
    st.sampled_from(
        [*RULES, "oai_dc", "2020-01-01", "2020-01-01T00:00:00Z", "domain:cz", "", "//a:b", "a:/b%"]
    ),
    st.from_regex(r"[a-z:/?#\[\]@%0-9 é.]{0,20}", fullmatch=True),
    st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([*Verb]), st.lists(st.tuples(names, values), max_size=4))
def test_whatever_is_asked_the_answer_is_valid(verb: Verb, pairs: list[tuple[str, str]]) -> None:
    encoded = urlencode([("verb", verb), *pairs], errors="surrogateescape").encode()
    try:
        request = check_request(read_pairs(encoded), FORMATS)
        refusal = request.refusal(ProtocolError(ErrorCode.NO_RECORDS_MATCH, "nothing"))
    except RefusedRequestError as error:
        refusal = error
    content = answers.errors(refusal.errors)
    body = answers.envelope(utc_now(), "http://archive.example/oai", refusal.arguments, content)
    assert read_reply(body).request == dict(refusal.arguments)


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=30) | st.from_regex(r"[a-z:/?#\[\]@%0-9 é.]{0,20}", fullmatch=True))
def test_an_identifier_is_accepted_only_where_the_schema_lets_it_be_echoed(identifier: str) -> None:
    pairs = [("verb", "ListMetadataFormats"), ("identifier", identifier)]
    try:
        request = check_request(pairs, FORMATS)
    except RefusedRequestError:
        return
    content = answers.errors([ProtocolError(ErrorCode.ID_DOES_NOT_EXIST, "unknown")])
    body = answers.envelope(utc_now(), "http://archive.example/oai", request.arguments, content)
    assert read_reply(body).request["identifier"] == identifier
