"""The table of faults: what is wrong with a provider, and all the checks that find it."""

from collections import Counter
from typing import Final

from oai.vocabulary import Granularity
from provider.checking.checks import errors
from tests.provider.checking.faults import (
    DC_TITLE,
    Shuffled,
    any_token,
    exclusive,
    fault,
    forced_gzip,
    further_format,
    get_differs,
    header,
    latin_1,
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
from tests.provider.checking.small_provider import DC, items

ERRORS: Final = [refusal.check().id for refusal in errors.REFUSALS if refusal.only is None]

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
    fault(
        "identifiers that are no URIs",
        text("oai:small.example:(\\d+)</identifier>", r"number \1</identifier>"),
        "verb.GetRecord.get verb.GetRecord.post identify.oai-identifier formats.of-item "
        "formats.gettable records.identifiers records.deleted-gettable records.get-header",
    ),
    fault(
        "metadata are missing", text("<metadata>.*?</metadata>", ""), "records.metadata records.oai-dc-filled"
    ),
    fault(
        "deleted records with metadata",
        text("(<header status=.*?</header>)(</record>)", rf"\1<metadata>{DC}</metadata>\2"),
        "records.deleted-headers",
    ),
    fault(
        "deleted records though none are kept",
        text("<deletedRecord>[^<]*", "<deletedRecord>no"),
        "records.deleted-policy",
    ),
    fault(
        "deleted records cannot be had",
        text("GetRecord>|header", "Nothing", where="3A3&metadataPrefix=oai_dc"),
        "records.deleted-gettable answers.well-formed answers.root answers.schema answers.response-date",
    ),
    fault("GetRecord dates otherwise", {"served": get_differs}, "records.get-header"),
    fault(
        "GetRecord describes otherwise",
        text("Title of", "Name of", where="GetRecord"),
        "records.get-metadata",
    ),
    fault("elements that Dublin Core has not", text("dc:title>", "dc:headline>"), "records.oai-dc-form"),
    fault(
        "Dublin Core with elements in elements",
        text(DC_TITLE, "<dc:title><dc:title>x</dc:title></dc:title>"),
        "records.oai-dc-form",
    ),
    fault("empty metadata", text(DC_TITLE, ""), "records.oai-dc-filled"),
    fault(
        "tokens are not taken",
        text(
            "<(List[A-Z][a-z]+)>.*(</OAI-PMH>)",
            r'<error code="badResumptionToken"/>\2',
            where="resumptionToken=List",
        ),
        "sets.listed tokens.follow tokens.reuse tokens.reuse-headers tokens.no-empty-pages "
        "tokens.last-empty tokens.size",
    ),
    fault("tokens are good once", {"forgetful": Counter()}, "tokens.reuse tokens.reuse-headers"),
    fault(
        "any verb takes any token",
        {"ask": any_token},
        "sets.unique sets.membership lists.no-repeats tokens.other-verb tokens.progress "
        "tokens.cursor tokens.size error.token-altered",
    ),
    fault(
        "tokens lead in a circle",
        text("(expirationDate=.*)~\\d{4}", r"\1~0003"),
        "sets.listed lists.none-lost tokens.progress tokens.no-empty-pages tokens.last-empty "
        "tokens.cursor tokens.size answers.schema",
    ),
    fault(
        "an empty page",
        text("<(List\\w+)>.*(<resumptionToken)", r"<\1>\2", where="~0006"),
        "sets.complete tokens.no-empty-pages tokens.cursor tokens.size answers.schema",
    ),
    fault("the last page has no token", text("<resumptionToken [^>]*/>", ""), "tokens.last-empty"),
    fault("a cursor of its own", text('cursor="\\d+"', 'cursor="1"'), "tokens.cursor"),
    fault("a size that is too small", text('completeListSize="\\d+"', 'completeListSize="2"'), "tokens.size"),
    fault(
        "tokens that have expired",
        text('expirationDate="\\d{4}', 'expirationDate="2001'),
        "tokens.expiration",
    ),
    fault(
        "tokens with blanks",
        text("(<resumptionToken [^>]*>List\\w+)~", r"\1 "),
        "sets.listed tokens.follow tokens.reuse tokens.reuse-headers tokens.no-empty-pages "
        "tokens.last-empty tokens.size tokens.safe",
    ),
    fault(
        "the request is not repeated",
        text("<request [^>]*>", "<request>"),
        "request.echo request.echo-window request.echo-token request.echo-errors",
    ),
    fault(
        "the request is repeated after errors",
        text("<request>", '<request verb="Identify">'),
        "request.bad-verb request.bad-argument",
    ),
    fault("anything goes", {"lenient": True}, " ".join(["tokens.other-verb", *ERRORS])),
    fault(
        "anything goes by days",
        {"lenient": True, "granularity": Granularity.DAY},
        " ".join(["tokens.other-verb error.date-finer", *ERRORS]),
    ),
    fault(
        "an ampersand is not escaped",
        text("Title of", "Title & of"),
        "verb.ListRecords.get verb.ListRecords.post answers.well-formed answers.root "
        "answers.schema answers.response-date",
    ),
    fault(
        "Latin-1",
        latin_1(),
        "verb.ListRecords.get verb.ListRecords.post answers.well-formed answers.utf-8 "
        "answers.root answers.schema answers.response-date",
    ),
    fault(
        "blank lines before the declaration",
        text("^<\\?xml", "\n<?xml", where="verb=Nonsense"),
        "error.verb-unknown answers.well-formed answers.declaration answers.root "
        "answers.schema answers.response-date",
    ),
    fault("no declaration", text("^<\\?xml[^>]*>", ""), "answers.declaration"),
    fault("another root", text("OAI-PMH", "OAI"), "answers.root answers.schema"),
    fault(
        "no schema for the envelope",
        text('(<OAI-PMH [^>]*) xsi:schemaLocation="[^"]*"', r"\1"),
        "answers.root answers.schema",
    ),
    fault(
        "elements that nobody asked for",
        text("<granularity>", "<mood>good</mood><granularity>"),
        "answers.schema",
    ),
    fault(
        "responseDate with an offset",
        text("<responseDate>([^<]*)Z", r"<responseDate>\1+00:00"),
        "tokens.expiration answers.schema answers.response-date",
    ),
    fault(
        "a clock that is years behind", text("<responseDate>\\d{4}", "<responseDate>2001"), "answers.clock"
    ),
)
