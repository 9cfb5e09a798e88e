"""What a probe finds, and what it reports as odd."""

import gzip
import re
from datetime import UTC, datetime

import pytest

from harvester.client.probe import ProbeFindings, Watching, oddities, probe
from harvester.client.repository_client import Client
from harvester.client.transport import open_transport
from harvester.reading.errors import HttpStatusError, NotOaiPmhError, TransportError
from oai.sections import HarvesterSettings
from tests.harvester.fake_repository import Answer, FakeRepository, Fault, Item, many, serve

_NOW = "2024-06-01T12:00:00Z"
_MOMENT = datetime(2024, 6, 1, 12, 0, tzinfo=UTC)


async def _probe(repository: FakeRepository) -> ProbeFindings:
    async with serve(repository), open_transport(HarvesterSettings()) as transport:
        watching = Watching(transport, clock=iter(range(1000)).__next__)
        return await probe(Client(repository.url, watching, retries=0), watching)


async def _odd(repository: FakeRepository) -> list[str]:
    return list(oddities(await _probe(repository), now=_MOMENT))


def _sound(**more: object) -> FakeRepository:
    """A repository without oddities."""

    def zipped(_asked: dict[str, str], good: bytes) -> Answer:
        return 200, {"Content-Type": "text/xml", "Content-Encoding": "gzip"}, gzip.compress(good)

    return FakeRepository(**{"items": many(5), "now": _NOW, "fault": zipped, **more})  # type: ignore[arg-type]


def _replacing(old: str, new: str) -> Fault:
    def fault(_asked: dict[str, str], good: bytes) -> Answer:
        headers = {"Content-Type": "text/xml", "Content-Encoding": "gzip"}
        return 200, headers, gzip.compress(good.replace(old.encode(), new.encode()))

    return fault


async def test_four_requests_are_sent_and_their_answers_kept() -> None:
    repository = _sound(items=many(25), sets=("a", "b"))
    found = await _probe(repository)
    assert [asked["verb"] for asked in repository.asked] == [
        "Identify",
        "ListMetadataFormats",
        "ListSets",
        "ListRecords",
    ]
    assert found.identity is not None
    assert found.identity.repository_name == "Fake"
    assert found.page is not None
    assert len(found.page.records) == 10
    assert [exchange.seconds for exchange in found.exchanges] == [1, 1, 1, 1]
    assert found.failures == {}


async def test_a_sound_repository_has_no_oddities() -> None:
    assert await _odd(_sound()) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<granularity>YYYY-MM-DDThh:mm:ssZ", "<granularity>YYYY-MM-DD", "5 of 5 datestamps are wrong"),
        ("<granularity>YYYY-MM-DDThh:mm:ssZ", "<granularity>seconds", "not day or second"),
        ("<responseDate>2024-06-01T12:00:00Z", "<responseDate>2024-06-01T14:00+02:00", "not UTC written as"),
        ("<responseDate>2024-06-01T12:00:00Z", "<responseDate>2024-06-01T14:00:00Z", "7,200 seconds ahead"),
        ("<deletedRecord>persistent", "<deletedRecord>no", "only a full harvest finds"),
        ("<deletedRecord>persistent", "<deletedRecord>maybe", "not no, transient or persistent"),
        ("<protocolVersion>2.0", "<protocolVersion>1.1", "The protocol version is '1.1'"),
        ("<adminEmail>admin@fake.example", "<adminEmail>", "No adminEmail"),
        ("<baseURL>http:", "<baseURL>https:", "Identify declares a different base URL"),
        ("<earliestDatestamp>2000", "<earliestDatestamp>2024-05", "earliestDatestamp is '2024-05-01-01"),
        ("<earliestDatestamp>2000-01", "<earliestDatestamp>2024-05", "5 of 5 records are older"),
        ("<metadataPrefix>oai_dc", "<metadataPrefix>marc21", "oai_dc is missing"),
        ("<dc:title>Title 1 ", "<dc:title>&nbsp;", "Part of the first page cannot be read: "),
    ],
)  # fmt: skip
async def test_faults_of_identify_and_of_the_first_page_are_reported(old: str, new: str, words: str) -> None:
    odd = await _odd(_sound(fault=_replacing(old, new)))
    assert [line for line in odd if words in line], odd


async def test_oddities_of_tokens_are_reported() -> None:
    odd = await _odd(_sound(items=many(25), sizes=False))
    assert any("completeListSize is missing" in line for line in odd)
    assert any("must be encoded in addresses: '|'" in line for line in odd)


async def test_faults_of_compression_content_type_and_status_are_reported() -> None:
    odd = await _odd(_sound(fault=lambda _, good: (200, {"Content-Type": "text/html"}, good)))
    assert "Answers are not compressed, although gzip was requested." in odd
    assert "The Content-Type is 'text/html', not 'text/xml'." in odd
    headers = {"Content-Type": "text/xml"}
    odd = await _odd(_sound(fault=lambda _, good: (422, headers, gzip.compress(good))))
    assert "Identify was answered with HTTP status 422, not 200." in odd
    assert "The answer is compressed (gzip), but no Content-Encoding says so." in odd


async def test_invalid_set_specs_and_missing_metadata_are_reported() -> None:
    items = [Item(identifier="oai:f:1", metadata=" "), Item(identifier="oai:f:2", deleted=True)]
    odd = await _odd(_sound(sets=("a:b", "not so"), items=items))
    assert "1 of 2 setSpecs have characters that are not allowed, such as 'not so'." in odd
    assert any(line.startswith("Part of the first page cannot be read: ") for line in odd)


async def test_a_single_failed_request_is_a_finding() -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        return (404, {}, b"") if asked["verb"] == "ListMetadataFormats" else good

    repository = _sound(fault=fault)
    found = await _probe(repository)
    assert found.page is not None
    assert any(
        line.startswith("ListMetadataFormats was not answered correctly: HTTP status 404")
        for line in oddities(found, now=_MOMENT)
    )


@pytest.mark.parametrize("answer", [(404, {}, b""), b'<error code="cannotDisseminateFormat">no</error>'])
async def test_without_a_list_of_formats_the_usual_ones_are_tried(answer: Answer | bytes) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        if asked["verb"] == "ListMetadataFormats":
            return (404, {}, b"")
        if asked.get("metadataPrefix") != "oai_dc":
            return good
        return (
            answer if isinstance(answer, tuple) else re.sub(rb"<ListRecords>.*</ListRecords>", answer, good)
        )

    found = await _probe(_sound(fault=fault))
    assert found.metadata_prefix == "marcxml"
    assert found.page is not None
    assert len(found.page.records) == 5
    assert list(found.failures) == ["ListMetadataFormats"]


async def test_if_there_is_no_repository_the_reason_is_raised() -> None:
    with pytest.raises(NotOaiPmhError):
        await _probe(_sound(fault=lambda _asked, _good: b"<html>Welcome"))
    with pytest.raises(HttpStatusError):
        await _probe(_sound(fault=lambda _asked, _good: (404, {}, b"")))
    async with open_transport(HarvesterSettings()) as transport:
        watching = Watching(transport)
        with pytest.raises(TransportError):
            await probe(Client("http://127.0.0.1:1/oai", watching, retries=0), watching)


async def test_answers_without_a_namespace_are_read_as_in_a_harvest() -> None:
    repository = _sound(sets=("a",), fault=_replacing(' xmlns="http://www.openarchives.org/OAI/2.0/"', ""))
    found = await _probe(repository)
    assert found.failures == {}
    assert found.identity is not None
    assert (found.identity.repository_name, found.identity.granularity) == ("Fake", "YYYY-MM-DDThh:mm:ssZ")
    assert [one.metadata_prefix for one in found.formats] == ["oai_dc"]
    assert found.sets is not None
    assert [one.set_spec for one in found.sets.sets] == ["a"]
    odd = list(oddities(found, now=_MOMENT))
    assert [words for words in odd if "namespace" in words] == [
        "Identify: the answer's namespace is '', not 'http://www.openarchives.org/OAI/2.0/'.",
        "ListRecords: the answer's namespace is '', not 'http://www.openarchives.org/OAI/2.0/'.",
    ]


async def test_records_without_a_datestamp_are_counted_and_not_reported_as_wrong() -> None:
    items = [Item(identifier="oai:a:1", datestamp=""), *many(3)]
    assert await _odd(_sound(items=items)) == [
        "1 of 4 records have no datestamp; a lenient harvest stores them with the date of the answer."
    ]
