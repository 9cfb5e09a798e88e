"""The table of faults in records, tokens, requests and the envelope, and all the checks that find them."""

from collections import Counter
from typing import Final

from oai.vocabulary import Granularity
from provider.checking.checks import errors
from tests.provider.checking.faults import (
    DC_TITLE,
    any_token,
    fault,
    get_differs,
    latin_1,
    text,
)
from tests.provider.checking.small_provider import DC

ERRORS: Final = [refusal.check().id for refusal in errors.REFUSALS if refusal.only is None]

RECORD_FAULTS: Final = (
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
