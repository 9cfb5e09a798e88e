"""Markup: invalid characters, broken tags, entities, document types, huge and deep content."""

from dataclasses import replace

from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, XSI_NAMESPACE
from tests.harvester.fake_repository import Item
from tests.harvester.hostile.faults import (
    at_page,
    edited,
    first_times,
    holding,
    in_lists,
    in_record,
    instead,
)
from tests.harvester.hostile.scenario import (
    ITEMS,
    POISON,
    WHOLE,
    Scenario,
    all_of,
    known,
    limited,
    one_lost,
    scenario,
    stopped,
)
from tests.harvester.hostile.server import Ask, Fault

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_HUGE = [
    Item(identifier=item.identifier, datestamp=item.datestamp, title="x" * 11_000_000)
    if number == 12 else item
    for number, item in enumerate(ITEMS)
]  # fmt: skip
_LOCATED = [
    replace(item, metadata=f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}" '
        f'xsi:schemaLocation="{OAI_DC_NAMESPACE} http://x.example/dc.xsd"></oai_dc:dc>')
    for item in ITEMS
]  # fmt: skip
MANY = 20_000


def _title(new: str | bytes) -> Fault:
    """Insert something into the poisoned record's title."""
    after = new if isinstance(new, bytes) else new.encode()
    return in_record(POISON, instead("<dc:title>", b"<dc:title>" + after))


def _doctype(doctype: str) -> Fault:
    return edited(instead(_DECLARATION, f"{_DECLARATION}\n{doctype}\n"))


def _with_entity(doctype: str, entity: str) -> Fault:
    """Give every answer the document type; the poisoned record uses its entity."""

    def fault(ask: Ask) -> bytes:
        body = instead(_DECLARATION, f"{_DECLARATION}\n{doctype}\n")(ask.good)
        title = POISON.record().encode()
        return body.replace(title, title.replace(b"<dc:title>", f"<dc:title>{entity}".encode()))

    return fault


def _cut_within_poison(ask: Ask) -> bytes:
    return ask.good[: ask.good.index(POISON.record().encode()) + 150]


_BOMB = "<!DOCTYPE OAI-PMH [\n" + "".join(
    f'<!ENTITY lol{n} "{f"&lol{n - 1};" * 10 if n else "lol"}">\n' for n in range(10)
) + "]>"  # fmt: skip

_CHARACTERS = tuple(
    one_lost(name, f"one record's title has {about}", lambda put=put: _title(put))  # type: ignore[misc]
    for name, about, put in (
        ("control-character", "the control character U+000B", "\x0b"),
        ("escape-character", "an escape sequence of a terminal", "\x1b[0m"),
        ("nul", "a NUL", "\x00"),
        ("control-reference", "a reference to a control character", "&#11;"),
        ("reference-out-of-range", "a reference beyond Unicode", "&#x110000;"),
        ("not-a-character", "the character U+FFFF, which XML forbids", "\uffff"),
        ("bare-ampersand", "a bare ampersand", "Tom & Jerry"),
        ("ampersand-in-address", "an address with bare ampersands", "http://x/?a=1&b=2"),
        ("html-entity", "an entity of HTML", "a&nbsp;b"),
        ("html-letter", "a letter written as an entity of HTML", "caf&eacute;"),
        ("bare-less-than", "a bare less-than sign", "1 < 2"),
        ("html-tag", "a tag of HTML that is not closed", "one<br>two"),
        ("crossed-tags", "tags that close in the wrong order", "<b><i></b></i>"),
        ("unquoted-attribute", "an attribute without quotes", "<b class=x>y</b>"),
        ("attribute-twice", "a tag with the same attribute twice", "<b c='1' c='2'>y</b>"),
        ("unknown-prefix", "a tag with a prefix that stands for nothing", "<x:b>y</x:b>"),
        ("open-comment", "a comment that does not end", "<!-- y"),
        ("open-cdata", "a CDATA section that does not end", "<![CDATA[ y"),
        ("closing-record", "the closing tag of its own record", "</record>"),
    )
)

SCENARIOS: tuple[Scenario, ...] = (
    *_CHARACTERS,
    one_lost("too-deep", "one record's title has 5,000 tags within each other",
        lambda: _title("<b>" * 5000 + "</b>" * 5000), limited(10)),
    scenario("ampersand-in-request", "the echoed request has bare ampersands",
        lambda: edited(instead("</request>", "?a=1&b=2</request>")), WHOLE, stopped(0), notable=True),
    scenario("unknown-prefix-at-root", "the root's xsi:schemaLocation has no declaration of xsi",
        lambda: edited(instead("<OAI-PMH ", '<OAI-PMH xsi:schemaLocation="a b" ')),
        WHOLE, stopped(0), notable=True),
    scenario("undeclared-dc", "one record uses the prefix dc without declaring it",
        lambda: in_record(POISON, instead(f' xmlns:dc="{DC_NAMESPACE}"', "")), WHOLE, stopped(10),
        notable=True),
    scenario("undeclared-xsi", "one record's xsi:schemaLocation has no declaration of xsi",
        lambda: in_record(_LOCATED[12], instead(f' xmlns:xsi="{XSI_NAMESPACE}"', "")), WHOLE, stopped(10),
        items=_LOCATED, notable=True),
    scenario("two-addresses", "one record has the address of a schema in the declaration of dc",
        lambda: in_record(POISON, instead(f'"{DC_NAMESPACE}"', f'"{DC_NAMESPACE} http://x.example/dc.xsd"')),
        WHOLE, stopped(10), notable=True),
    scenario("line-before-declaration", "an empty line stands before the XML declaration",
        lambda: edited(lambda good: b"\r\n" + good), WHOLE, stopped(0), notable=True),
    scenario("php-warning-before", "a warning of PHP stands before the XML",
        lambda: edited(lambda good: b"<br />\n<b>Notice</b>: Undefined index <b>/oai.php</b>\n" + good),
        WHOLE, stopped(0), notable=True),
    scenario("php-warning-behind", "a warning of PHP stands behind the XML",
        lambda: edited(lambda good: good + b"\n<br />\n<b>Notice</b>: Undefined index<br />\n"),
        WHOLE, stopped(0), notable=True),
    scenario("truncated-once", "one page breaks off the first time",
        lambda: at_page(10, first_times(1, lambda ask: ask.good[:2000])), WHOLE),
    one_lost("truncated-in-record", "every answer that holds one record breaks off within it",
        lambda: holding(POISON, _cut_within_poison)),
    scenario("truncated-pages", "answers end after 3,000 bytes; a single record comes whole",
        lambda: in_lists(lambda good: good[:3000]), WHOLE, stopped(0), notable=True),
    scenario("huge-text", "one text is 11 MB long", lambda: lambda _ask: None, WHOLE, items=_HUGE),
    one_lost("huge-text-and-fault", "one text is 11 MB long, and its neighbour has a bare ampersand",
        lambda: in_record(ITEMS[13], instead("<dc:title>", "<dc:title>a & b")), items=_HUGE,
        lost=frozenset({ITEMS[13].identifier})),
    scenario("many-in-a-page", f"{MANY:,} records come in one page", lambda: lambda _ask: None,
        all_of(MANY), items=known(MANY), server={"page_size": MANY}),
    scenario("doctype", "each answer has a document type with an external DTD",
        lambda: _doctype('<!DOCTYPE OAI-PMH SYSTEM "http://127.0.0.1:9/oai.dtd">'),
        WHOLE, stopped(0), notable=True),
    one_lost("entity-bomb", "a document type declares entities that would grow to 3 GB; one record uses them",
        lambda: _with_entity(_BOMB, "&lol9;"), stopped(0)),
    one_lost("external-entity", "a document type declares a file of ours as an entity; one record uses it",
        lambda: _with_entity('<!DOCTYPE OAI-PMH [<!ENTITY xxe SYSTEM "file:///etc/hostname">]>', "&xxe;"),
        stopped(0)),
    one_lost("entity-of-dtd", "a document type declares a harmless entity; one record uses it",
        lambda: _with_entity('<!DOCTYPE OAI-PMH [<!ENTITY pub "ACME">]>', "&pub;"), stopped(0)),
    one_lost("default-attributes", "one record's answers have a document type that gives attributes defaults",
        lambda: holding(POISON, _doctype('<!DOCTYPE OAI-PMH [<!ATTLIST header status CDATA "deleted">]>')),
        stopped(10)),
)  # fmt: skip
