"""The table of faults of a provider, with all checks that find each."""

from typing import Final

from tests.provider.checking.faults import (
    Shuffled,
    exclusive,
    fault,
    forced_gzip,
    further_format,
    header,
    loses_sets,
    method,
    midnights,
    missing_as_header,
    missing_in_set,
    missing_in_window,
    only,
    parent_asked,
    shifted,
    status,
    text,
    unavailable,
    unpacked,
    without,
)
from tests.provider.checking.record_faults import RECORD_FAULTS
from tests.provider.checking.small_provider import items

FAULTS: Final = (
    fault(
        "GET is refused for lists",
        status(405, b"verb=List"),
        "verb.ListMetadataFormats.get verb.ListSets.get verb.ListIdentifiers.get verb.ListRecords.get",
    ),
    fault(
        "POST is refused",
        method("POST", 405),
        "verb.Identify.post verb.ListMetadataFormats.post verb.ListSets.post "
        "verb.ListIdentifiers.post verb.ListRecords.post verb.GetRecord.post "
        "answers.well-formed answers.declaration answers.root answers.schema "
        "answers.response-date",
    ),
    fault("HEAD is refused", method("HEAD", 405), "http.head"),
    fault(
        "GetRecord is not there",
        text("GetRecord>", "Record>", where="GetRecord"),
        "verb.GetRecord.get verb.GetRecord.post answers.schema",
    ),
    fault(
        "Identify is not there",
        text("Identify>", "Identity>", where="Identify"),
        "verb.Identify.get verb.Identify.post answers.schema",
    ),
    fault(
        "answers are HTML by their type",
        header("content-type", "text/html; charset=utf-8"),
        "http.content-type",
    ),
    fault(
        "another charset is announced", header("content-type", "text/xml; charset=iso-8859-1"), "http.charset"
    ),
    fault("errors are HTTP errors", status(400, b"<error"), "http.error-status"),
    fault("compression is forced", forced_gzip(), "http.identity"),
    fault("gzip is announced and not given", unpacked(), "http.gzip"),
    fault(
        "an element of Identify is missing",
        text("<repositoryName>.*</repositoryName>", ""),
        "identify.elements answers.schema",
    ),
    fault(
        "version 1.1",
        text("<protocolVersion>2.0", "<protocolVersion>1.1"),
        "identify.protocol-version answers.schema",
    ),
    fault(
        "another base URL",
        text("<baseURL>[^<]*", "<baseURL>http://inside.example:8080/oai"),
        "identify.base-url identify.request-url",
    ),
    fault(
        "another address in some answers",
        text("(<request[^>]*>)[^<]*", r"\1http://inside.example/", where="ListSets"),
        "identify.request-url",
    ),
    fault("no address to write to", text("oai@small.example", "nobody"), "identify.emails answers.schema"),
    fault(
        "a granularity of its own",
        text("<granularity>[^<]*", "<granularity>YYYY-MM-DDThh:mmZ"),
        "identify.granularity answers.schema",
    ),
    fault(
        "deletions as it likes",
        text("<deletedRecord>[^<]*", "<deletedRecord>sometimes"),
        "identify.deleted-record answers.schema",
    ),
    fault(
        "earliestDatestamp in another granularity",
        text("<earliestDatestamp>[^<]*", "<earliestDatestamp>2024-01-01"),
        "identify.earliest-form",
    ),
    fault(
        "earliestDatestamp is too late",
        text("<earliestDatestamp>[^<]*", "<earliestDatestamp>2024-01-03T00:00:00Z"),
        "identify.earliest-listed identify.earliest-asked error.before-earliest",
    ),
    fault(
        "compression unheard of", text("<compression>[^<]*", "<compression>identity"), "identify.compression"
    ),
    fault(
        "a description without a schema",
        text('(<oai-identifier xmlns="[^"]*")[^>]*', r"\1"),
        "identify.descriptions",
    ),
    fault(
        "another namespace in identifiers",
        text("<repositoryIdentifier>[^<]*", "<repositoryIdentifier>other.example"),
        "identify.oai-identifier",
    ),
    fault(
        "no oai_dc",
        text("<metadataPrefix>oai_dc<", "<metadataPrefix>oai_other<"),
        "verb.ListIdentifiers.get verb.ListRecords.get verb.ListIdentifiers.post "
        "verb.ListRecords.post formats.oai-dc error.before-earliest error.future "
        "error.set-unknown error.get-unknown",
    ),
    fault(
        "oai_dc of another namespace",
        text("<metadataNamespace>[^<]*", "<metadataNamespace>http://other.example/"),
        "formats.oai-dc-namespace formats.namespaces",
    ),
    fault("a format twice", text("(<metadataFormat>.*</metadataFormat>)", r"\1\1"), "formats.unique"),
    fault("a prefix with a blank", further_format("a b"), "formats.prefixes answers.schema"),
    fault(
        "an item without formats",
        text(
            "<metadataPrefix>oai_dc<",
            "<metadataPrefix>other<",
            where="ListMetadataFormats&identifier=oai%3Asmall",
        ),
        "formats.of-item",
    ),
    fault("a format that cannot be had", unavailable(), "formats.gettable"),
    fault(
        "metadata without a schema",
        text('(<oai_dc:dc [^>]*) xsi:schemaLocation="[^"]*"', r"\1"),
        "formats.schema-location",
    ),
    fault(
        "a setSpec with a blank",
        text("<setSpec>c</setSpec><setName>", "<setSpec>c c</setSpec><setName>"),
        "sets.form sets.listed answers.schema",
    ),
    fault("a set without a name", text("<setName>C</setName>", "<setName></setName>"), "sets.names"),
    fault("a set twice", {"sets": (("a", "A"), ("a:b", "B"), ("c", "C"), ("c", "C"))}, "sets.unique"),
    fault("a set without its parent", {"sets": (("a:b", "B"), ("c", "C"))}, "sets.parents"),
    fault("a set that is not listed", {"sets": (("a", "A"), ("a:b", "B"))}, "sets.listed"),
    fault("the set asked for is overlooked", without("set"), "sets.membership error.set-unknown"),
    fault("headers without the set asked for", {"served": loses_sets}, "sets.membership lists.agree"),
    fault("a record is missing in its set", only(missing_in_set), "sets.complete"),
    fault("a parent has not what is below it", only(parent_asked), "sets.ancestors"),
    fault("a record twice", {"items": [*items()[:2], *items()[:2], *items()[2:]]}, "lists.no-repeats"),
    fault("a record is missing at its time", only(missing_in_window), "lists.none-lost"),
    fault("one verb lists less", only(missing_as_header), "sets.complete lists.agree"),
    fault(
        "until is overlooked",
        without("until"),
        "identify.earliest-asked lists.window lists.until-excludes error.date-month "
        "error.date-mixed error.date-order error.before-earliest answers.schema",
    ),
    fault(
        "from is overlooked",
        without("from"),
        "lists.from-excludes error.date-nonsense error.date-impossible error.date-digits "
        "error.date-offset error.date-fraction error.date-mixed error.date-order error.future "
        "answers.schema",
    ),
    fault("from is exclusive", only(exclusive("from")), "sets.ancestors lists.from-inclusive lists.days"),
    fault("until is exclusive", only(exclusive("until")), "sets.ancestors lists.until-inclusive"),
    fault("days are midnights", {"ask": midnights, **shifted(hours=1)}, "lists.days error.date-mixed"),
    fault(
        "every list in another order",
        {"items": Shuffled(items())},
        "sets.complete lists.no-repeats lists.agree lists.repeatable tokens.reuse",
    ),
    fault(
        "datestamps without seconds",
        text("<datestamp>([^T]*)T[^<]*", r"<datestamp>\1"),
        "lists.window lists.from-inclusive lists.until-inclusive lists.datestamp-form",
    ),
    fault("datestamps ahead of time", shifted(days=365 * 500), "lists.no-future"),
    *RECORD_FAULTS,
)
