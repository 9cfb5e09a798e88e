"""Encodings: declared, undeclared, declared wrongly."""

from tests.harvester.fake_repository import Item
from tests.harvester.hostile.faults import Edit, edited, in_lists, in_record, instead
from tests.harvester.hostile.scenario import (
    POISON,
    WHOLE,
    Scenario,
    known,
    left_out,
    one_lost,
    scenario,
    stopped,
)
from tests.harvester.hostile.server import Ask, Fault, Reply

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_CZECH = known(titles="Žluťoučký kůň číslo {}")
_GERMAN = known(titles="Übermäßige Größe {}")
_MOSTLY_PLAIN = [
    Item(identifier=item.identifier, datestamp=item.datestamp, title=f"Kůň {n}" if n in {3, 12, 13} else "K")
    for n, item in enumerate(known())
]


def _recoded(encoding: str, declared: str | None) -> Edit:
    """Send the answer in another encoding, with its own declaration or none."""
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""

    def edit(good: bytes) -> bytes:
        text = good.decode().removeprefix(_DECLARATION)
        return (declaration + text).encode(encoding)

    return edit


def _sent_as(edit: Edit, content_type: str) -> Fault:
    def fault(ask: Ask) -> Reply:
        return Reply(body=edit(ask.good), headers=[("Content-Type", content_type)])

    return fault


def _latin_1(record: bytes) -> bytes:
    return record.decode().replace("ů", "ú").replace("Ž", "Z").replace("ť", "t").replace("č", "c").replace(
        "ň", "n"
    ).replace("“", "-").replace("”", "-").encode("latin-1")  # fmt: skip


def _broken_utf_16(good: bytes) -> bytes:
    title = "<dc:title>Übermäßige Größe 12"
    text = instead(title, title + " & ")(good) if title.encode() in good else good
    return _recoded("utf-16", "UTF-16")(text)


SCENARIOS: tuple[Scenario, ...] = (
    scenario("utf-8-with-bom", "each answer begins with a byte order mark",
        lambda: edited(lambda good: b"\xef\xbb\xbf" + good), WHOLE),
    scenario("declared-iso-8859-1", "the answers are in ISO-8859-1 and say so",
        lambda: edited(_recoded("latin-1", "ISO-8859-1")), WHOLE, items=_GERMAN),
    scenario("declared-iso-8859-2", "the answers are in ISO-8859-2 and say so",
        lambda: edited(_recoded("iso-8859-2", "ISO-8859-2")), WHOLE, items=_CZECH),
    scenario("declared-windows-1250", "the answers are in windows-1250 and say so",
        lambda: edited(_recoded("cp1250", "windows-1250")), WHOLE, items=_CZECH),
    scenario("utf-16", "the answers are in UTF-16 with a byte order mark",
        lambda: edited(_recoded("utf-16", "UTF-16")), WHOLE),
    one_lost("utf-16-broken", "the answers are in UTF-16, and one record has a bare ampersand",
        lambda: edited(_broken_utf_16), items=_GERMAN),
    scenario("charset-of-http", "no encoding in the XML; Content-Type says windows-1250, and it is",
        lambda: _sent_as(_recoded("cp1250", None), "text/xml; charset=windows-1250"), WHOLE, items=_CZECH),
    scenario("charset-of-http-quoted", "the same, written with quotes and other parameters",
        lambda: _sent_as(_recoded("iso-8859-2", None), 'text/xml; x=y; Charset="ISO-8859-2"'),
        WHOLE, items=_CZECH),
    scenario("charset-of-http-lies", "Content-Type says ISO-8859-1; the answers are UTF-8",
        lambda: _sent_as(lambda good: good, "text/xml; charset=ISO-8859-1"), WHOLE),
    scenario("charset-of-http-against-declaration",
        "the XML says UTF-8 and is not; Content-Type says windows-1250, and it is",
        lambda: _sent_as(_recoded("cp1250", "UTF-8"), "text/xml; charset=windows-1250"),
        WHOLE, stopped(0), items=_CZECH, notable=True),
    scenario("undeclared-windows-1250", "three records hold windows-1250, and nothing says so",
        lambda: in_lists(_recoded("cp1250", None)), left_out(3), stopped(0), items=_MOSTLY_PLAIN,
        lost=frozenset(f"oai:hostile.example:{number}" for number in (3, 12, 13))),
    scenario("declared-latin-1-is-utf-8", "the XML says ISO-8859-1; the answers are UTF-8",
        lambda: edited(_recoded("utf-8", "ISO-8859-1")), WHOLE, stopped(0), notable=True),
    scenario("declared-utf-16-is-utf-8", "the XML says UTF-16; the answers are UTF-8",
        lambda: edited(_recoded("utf-8", "UTF-16")), WHOLE, stopped(0), notable=True),
    scenario("unknown-encoding", "the XML names an unknown encoding; the answers are UTF-8",
        lambda: edited(_recoded("utf-8", "x-unicode-utf8")), WHOLE, stopped(0), notable=True),
    one_lost("one-record-in-latin-1", "one record of a UTF-8 page is in ISO-8859-1",
        lambda: in_record(POISON, _latin_1)),
    one_lost("half-a-character", "one record was cut in the middle of a character",
        lambda: in_record(POISON, instead("Žlu", b"\xc5lu"))),
    one_lost("surrogates", "one record has a character as two encoded surrogates (CESU-8)",
        lambda: in_record(POISON, instead("Žlu", b"\xed\xa0\xbd\xed\xb8\x80lu"))),
)  # fmt: skip
