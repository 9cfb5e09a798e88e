"""Envelopes: other prefixes and namespaces, no namespace, and answers of OAI-PMH 1.1."""

import re

from tests.harvester.hostile.faults import edited, in_lists, in_record, instead, to_verb
from tests.harvester.hostile.scenario import POISON, WHOLE, Scenario, one_lost, scenario, stopped

_NAMESPACE = "http://www.openarchives.org/OAI/2.0/"
_DECLARED = f'xmlns="{_NAMESPACE}"'
_DC = (
    ' xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/"'
)
_OURS = re.compile(rb"<(/?)(?=[A-Za-z])(?!oai_dc:|dc:)")


def _prefixed(good: bytes) -> bytes:
    """Add a prefix to all elements of the protocol."""
    return _OURS.sub(rb"<\1o:", good).replace(b"xmlns=", b"xmlns:o=")


def _declared_at_root(good: bytes) -> bytes:
    """Declare the metadata's prefixes at the root instead of in each record."""
    return good.replace(_DC.encode(), b"").replace(_DECLARED.encode(), (_DECLARED + _DC).encode())


def _in_two_lists(good: bytes) -> bytes:
    """Put the page's second half into a separate list."""
    parts = good.split(b"<record>")
    half = len(parts) // 2
    if half < 2:  # one record, or none
        return good
    joint = b"</ListRecords><ListRecords>"
    return b"<record>".join(parts[:half]) + joint + b"<record>" + b"<record>".join(parts[half:])


def _of_1_1(good: bytes) -> bytes:
    """Send the answer as in OAI-PMH 1.1: the verb's element is the root, in its own namespace."""
    verb = re.search(rb"<(Identify|ListRecords|GetRecord|ListIdentifiers)>", good)
    if verb is None:
        return good
    date = re.search(rb"<responseDate>[^<]*</responseDate>", good)
    assert date is not None
    begin = good.index(verb[0]) + len(verb[0])
    end = good.index(b"</" + verb[1] + b">")
    root = b'<%b xmlns="http://www.openarchives.org/OAI/1.1/OAI_%b">' % (verb[1], verb[1])
    body = good[begin:end].replace(b"<protocolVersion>2.0", b"<protocolVersion>1.1")
    request = b"<requestURL>http://x/oai</requestURL>"
    return (
        b'<?xml version="1.0" encoding="UTF-8"?>' + root + date[0] + request + body + b"</" + verb[1] + b">"
    )


def _broken_and_declared_at_root(good: bytes) -> bytes:
    title = "<dc:title>Žluťoučký kůň “a” ňadra &amp; «více» 12<"
    return _declared_at_root(good).replace(title.encode(), title.encode()[:-1] + b" & <")


SCENARIOS: tuple[Scenario, ...] = (
    scenario("other-prefix", "the protocol's elements have a prefix", lambda: edited(_prefixed), WHOLE),
    scenario("prefixes-at-root", "the metadata's prefixes are declared at the root",
        lambda: edited(_declared_at_root), WHOLE),
    one_lost("prefixes-at-root-and-fault", "the same, and one record has a bare ampersand",
        lambda: edited(_broken_and_declared_at_root)),
    scenario("no-namespace", "the answers are in no namespace",
        lambda: edited(instead(" " + _DECLARED, "")), WHOLE, stopped(0), notable=True),
    scenario("https-namespace", "the namespace is written with https",
        lambda: edited(instead(_DECLARED, _DECLARED.replace("http:", "https:"))),
        WHOLE, stopped(0), notable=True),
    scenario("namespace-without-slash", "the namespace lacks its last slash",
        lambda: edited(instead(_DECLARED, _DECLARED.replace('2.0/"', '2.0"'))),
        WHOLE, stopped(0), notable=True),
    scenario("namespace-misspelt", "the namespace is of another version, 2.1",
        lambda: edited(instead(_DECLARED, _DECLARED.replace("2.0/", "2.1/"))),
        WHOLE, stopped(0), notable=True),
    one_lost("no-namespace-and-fault", "the answers are in no namespace, and one record has a bare ampersand",
        lambda: edited(lambda good: _broken_and_declared_at_root(good).replace(_DECLARED.encode(), b"")),
        stopped(0)),
    scenario("records-without-namespace", "the records are in no namespace, within a right envelope",
        lambda: edited(lambda good: good.replace(b"<record>", b'<record xmlns="">')),
        WHOLE, stopped(0), notable=True),
    scenario("one-record-without-namespace", "one record is in no namespace",
        lambda: in_record(POISON, instead("<record>", '<record xmlns="">')),
        WHOLE, stopped(10), notable=True),
    scenario("two-lists", "the page's records are in two lists", lambda: in_lists(_in_two_lists),
        WHOLE, stopped(0), notable=True),
    scenario("version-1.1", "the repository speaks OAI-PMH 1.1",
        lambda: edited(_of_1_1), WHOLE, stopped(0), notable=True),
    scenario("version-1.1-said", "Identify says version 1.1, and the answers are those of 2.0",
        lambda: to_verb("Identify", edited(instead("<protocolVersion>2.0", "<protocolVersion>1.1"))), WHOLE),
    scenario("no-request", "the answers lack the request element",
        lambda: edited(lambda good: re.sub(rb"<request\b.*?</request>", b"", good)), WHOLE, stopped(0)),
    scenario("no-response-date", "the answers lack the responseDate",
        lambda: edited(lambda good: re.sub(rb"<responseDate>.*?</responseDate>", b"", good)),
        WHOLE, stopped(0)),
    scenario("schema-elsewhere", "schemaLocation names a schema that is nowhere",
        lambda: edited(instead("<OAI-PMH ", '<OAI-PMH xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
            f' xsi:schemaLocation="{_NAMESPACE} http://127.0.0.1:9/no.xsd" ')), WHOLE),
)  # fmt: skip
