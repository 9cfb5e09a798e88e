import pytest
from lxml import etree

from harvester.harvest.transform import RecordBatch, Transformer, joined
from harvester.reading.answers import Header
from harvester.rules.filters import parse_filters
from harvester.rules.normalisation import parse_mappings
from harvester.rules.rule_files import RuleFileError
from harvester.rules.rule_limits import RuleLimits
from harvester.rules.schema_sampling import SchemaSampler
from harvester.rules.validation import own_validator
from harvester.vocabulary import Level
from oai.errors import ExitCode, StrictCheckError
from tests.harvester.rules.rule_samples import DECLARED, record, tombstone

URL = "http://a.example/oai?verb=ListRecords"
SHORT = RuleLimits(characters=10, records=2)
FILTERS = f'<filters>{DECLARED}<filter xpath="//dc:title" regexp="."/></filters>'.encode()
MAPPINGS = (
    f'<normalize>{DECLARED}<mapping xpath="//dc:title"><newElement name="dc:type" regexp=".">'
    "<newValue>text</newValue></newElement></mapping></normalize>"
).encode()


def entry(name: str, title: str = "a") -> tuple[Header, etree._Element]:
    return Header(identifier=name, datestamp="2024-05-01"), record(f"<dc:title>{title}</dc:title>")


@pytest.mark.parametrize("kind", ["filters", "mappings"])
def test_a_lenient_run_rejects_a_record_that_exceeds_a_limit_with_the_reason(kind: str) -> None:
    transformer = (
        Transformer(filters=parse_filters(FILTERS, source="f.xml", limits=SHORT))
        if kind == "filters"
        else Transformer(mappings=parse_mappings(MAPPINGS, source="f.xml", limits=SHORT))
    )

    batch = transformer.prepare([entry("1"), entry("2", "a" * 11), entry("3")], url=URL)

    assert [each.header.identifier for each in batch.records] == ["1", "3"]
    assert (batch.filtered, batch.repeated, len(batch.refused)) == (0, 0, 1)
    refusal = batch.refused[0]
    assert (refusal.identifier, refusal.url) == ("2", URL)
    assert "f.xml, line 1, column " in refusal.reason
    assert "'//dc:title' exceeds a limit: its values have more than 10 characters" in refusal.reason
    assert etree.fromstring(refusal.raw).findtext(".//{*}title") == "a" * 11


def test_a_rule_that_exceeds_its_limit_repeatedly_ends_even_a_lenient_run() -> None:
    transformer = Transformer(filters=parse_filters(FILTERS, source="f.xml", limits=SHORT))

    with pytest.raises(RuleFileError, match="more than 2 records exceeded it"):
        transformer.prepare([entry(str(number), "a" * 11) for number in range(3)], url=URL)


@pytest.mark.parametrize("level", [Level.STRICT, Level.VERY_STRICT])
def test_a_strict_run_ends_at_a_record_that_exceeds_a_limit(level: Level) -> None:
    transformer = Transformer(filters=parse_filters(FILTERS, source="f.xml", limits=SHORT), level=level)

    with pytest.raises(
        StrictCheckError, match=r"record '2': f\.xml, line 1, column .* exceeds a limit"
    ) as caught:
        transformer.prepare([entry("1"), entry("2", "a" * 11)], url=URL)

    assert caught.value.exit_code == ExitCode.STRICT_CHECK


def test_an_invalid_record_is_reported_with_line_element_and_reason() -> None:
    transformer = Transformer(validator=own_validator("oai_dc"), level=Level.VERY_STRICT)
    header, element = entry("1")
    assert element is not None
    bad = etree.fromstring(etree.tostring(element).replace(b"dc:title", b"dc:titel"))

    with pytest.raises(
        StrictCheckError, match="record '1' is not valid: line 1, element 'dc:titel': this element"
    ):
        transformer.prepare([entry("0"), (header, bad)], url=URL)


def test_records_excluded_by_filters_and_deletions_are_not_validated() -> None:
    filters = parse_filters(FILTERS.replace(b'regexp="."', b'regexp="x"'), source="f.xml")
    transformer = Transformer(filters=filters, validator=own_validator("oai_dc"), level=Level.VERY_STRICT)
    bad = record("<dc:titel/>")

    batch = transformer.prepare(
        [
            (Header(identifier="1", datestamp="2024-05-01"), bad),
            (Header(identifier="2", datestamp="2024-05-01", deleted=True), tombstone()),
        ],
        url=URL,
    )

    assert (batch.filtered, [each.header.identifier for each in batch.records]) == (1, ["2"])


def test_a_lenient_run_samples_only_records_that_the_filters_accept() -> None:
    filters = parse_filters(FILTERS.replace(b'regexp="."', b'regexp="x"'), source="f.xml")
    sampler = SchemaSampler(validator=own_validator("oai_dc"), most=1)
    bad = record("<dc:titel/>")
    entries = [(Header(identifier="1", datestamp="2024-05-01"), bad), entry("2", "x")]

    batch = Transformer(filters=filters, sampler=sampler).prepare(entries, url=URL)

    assert (batch.filtered, batch.sample.checked, batch.sample.invalid) == (1, 1, 0)


def test_a_record_is_validated_before_the_rules_add_to_it() -> None:
    adding = MAPPINGS.replace(b'name="dc:type"', b'name="dc:kind"')
    transformer = Transformer(
        mappings=parse_mappings(adding, source="f.xml"),
        validator=own_validator("oai_dc"),
        level=Level.VERY_STRICT,
    )

    assert b"dc:kind" in (transformer.prepare([entry("1")], url=URL).records[0].data or b"")


def test_an_answer_that_is_invalid_outside_its_records_ends_the_run() -> None:
    text = etree.tostring(record("<dc:title/>")).decode()
    answer = etree.fromstring(
        '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>today</responseDate>'
        f"<request>http://a.example/</request><ListRecords>{text}</ListRecords></OAI-PMH>"
    )
    transformer = Transformer(validator=own_validator("oai_dc"), level=Level.VERY_STRICT)

    with pytest.raises(
        StrictCheckError, match="ListRecords: the answer is not valid: line 1, element 'oai:responseDate'"
    ):
        transformer.prepare([(Header(identifier="1", datestamp="2024-05-01"), answer[2][0])], url=URL)


def dated(name: str, datestamp: str, title: str) -> tuple[Header, etree._Element]:
    return Header(identifier=name, datestamp=datestamp), record(f"<dc:title>{title}</dc:title>")


def titles(batch: RecordBatch) -> list[str | None]:
    return [etree.fromstring(each.data or b"").findtext(".//{*}title") for each in batch.records]


def test_the_newest_version_of_a_record_is_stored_and_of_equally_old_ones_the_last() -> None:
    batch = Transformer().prepare(
        [
            dated("1", "2024-05-01", "old"),
            dated("1", "2024-05-03", "newest"),
            dated("2", "2024-05-01", "first"),
            dated("1", "2024-05-02", "between"),
            dated("2", "2024-05-01", "last"),
        ],
        url=URL,
    )
    assert titles(batch) == ["newest", "last"]
    assert (batch.repeated, batch.outdated) == (3, ["1"])


def test_the_newest_version_on_several_pages_is_stored() -> None:
    pages = [
        Transformer().prepare([dated("1", "2024-05-02", "new"), dated("2", "2024-05-01", "a")], url=URL),
        Transformer().prepare([dated("1", "2024-05-01", "old"), dated("2", "2024-05-01", "b")], url=URL),
    ]
    batch = joined(pages)
    assert titles(batch) == ["new", "b"]
    assert (batch.repeated, batch.outdated) == (2, ["1"])


def test_a_deletion_that_is_older_than_the_record_is_ignored() -> None:
    tomb = Header(identifier="1", datestamp="2024-05-01", deleted=True)
    batch = Transformer().prepare([dated("1", "2024-05-02", "new"), (tomb, None)], url=URL)
    assert titles(batch) == ["new"]
