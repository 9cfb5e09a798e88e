import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from harvester.reading.answers import FormatInfo
from harvester.rules.validation import Grammar, Validator, own_validator, prepare_validator
from oai.errors import StrictCheckError
from tests.harvester.rules.rule_samples import HEADER, OAI, OAI_DC, list_of, record, record_xml, tombstone
from tests.harvester.rules.schema_server import BOOK, NOTE, SchemaServer, schema, schemas, serve_schemas

SHARED = Path(__file__).parents[4] / "shared"
# fmt: off
ELEMENTS = [
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type", "format",
    "identifier", "source", "language", "relation", "coverage", "rights",
]
# fmt: on
ABOUT = '<about><p xmlns="urn:p"/></about>'


def faults(of: etree._Element) -> list[str]:
    return own_validator("oai_dc").faults(of)


def raw(inner: str, header: str = f"<header>{HEADER}</header>") -> etree._Element:
    return etree.fromstring(f'<record xmlns="{OAI}">\n{header}\n{inner}</record>')


@given(
    st.lists(
        st.tuples(
            st.sampled_from(ELEMENTS),
            st.sampled_from(["", ' xml:lang="cs"', ' xml:lang="en-GB"', ' xml:lang=""']),
            st.text("aá &<\n", max_size=5),
        )
    )
)
def test_any_dublin_core_elements_in_any_order_are_valid(elements: list[tuple[str, str, str]]) -> None:
    content = "".join(
        f"<dc:{name}{lang}>{text.replace('&', '&amp;').replace('<', '&lt;')}</dc:{name}>"
        for name, lang, text in elements
    )

    assert faults(record(content)) == []


@pytest.mark.parametrize(
    "good",
    [
        record("", header="<identifier>a</identifier><datestamp>2024-02-29T23:59:59Z</datestamp>"),
        record("", header=HEADER + "<setSpec>a:b.c-d_e!~*'()</setSpec>"),
        record("", header=f"<!-- a -->{HEADER}"),
        record("<!-- a --><?p q?>\n<dc:title/>"),
        record("", about=ABOUT + ABOUT),
        tombstone(),
        raw(ABOUT, f'<header status="deleted">{HEADER}</header>'),
    ],
    ids=["seconds", "sets", "comment", "comment in metadata", "abouts", "deletion", "deletion with about"],
)
def test_good_records_of_many_shapes_are_valid(good: etree._Element) -> None:
    assert faults(good) == []


def header(identifier: str = "a", datestamp: str = "2024-05-01", rest: str = "") -> str:
    return f"<identifier>{identifier}</identifier>\n<datestamp>{datestamp}</datestamp>\n{rest}"


@pytest.mark.parametrize(
    ("bad", "line", "element", "reason"),
    [
        (record("\n<dc:titel>a</dc:titel>"), 2, "dc:titel", "this element is not defined here"),
        (record("\n<dc:title><b/></dc:title>"), 2, "dc:title", "may contain only text"),
        (record("\n<x xmlns='urn:x'/>"), 2, "{urn:x}x", "not expected"),
        (record("\n\n<dc:title id='a'/>"), 3, "dc:title/@id", "this attribute is not defined here"),
        (record("<dc:title xml:lang='en US'/>"), 1, "dc:title/@xml:lang", "'en US'"),
        (record("text"), 1, "oai_dc:dc", "may contain only elements"),
        (record("", header=header(identifier="")), 1, "oai:identifier", "minimum length"),
        (record("", header=header(datestamp="2024-02-30")), 2, "oai:datestamp", "'2024-02-30'"),
        (record("", header=header(datestamp="2024-05-01T10:00:00")), 2, "oai:datestamp", "T10:00:00"),
        (record("", header=header(datestamp="2024-05-01T10:00:00+02:00")), 2, "oai:datestamp", "+02:00"),
        (record("", header=header(datestamp="2024-05-01Z")), 2, "oai:datestamp", "2024-05-01Z"),
        (record("", header=header(datestamp="2024")), 2, "oai:datestamp", "'2024'"),
        (record("", header=header(rest="<setSpec>a:</setSpec>")), 3, "oai:setSpec", "'a:'"),
        (record("", header=header(rest="<setSpec>a b</setSpec>")), 3, "oai:setSpec", "'a b'"),
        (record("", header=header(rest="<datestamp/>")), 3, "oai:datestamp", "not expected"),
        (record("", header="<identifier>a</identifier>"), 1, "oai:header", "oai:datestamp"),
        (record("", status=' status="gone"'), 1, "oai:header/@status", "'gone'"),
        (record("", status=' status="deleted"'), 1, "oai:metadata", "a deleted record has no metadata"),
        (record("", about="<about/>"), 1, "oai:about", "Missing child"),
        (record("", about='<about><a xmlns="u"/><b xmlns="u"/></about>'), 1, "{u}b", "not expected"),
        (raw("", ""), 1, "oai:record", "oai:header"),
        (raw(""), 1, "oai:record", "it has no oai:metadata"),
        (raw("<metadata/>"), 3, "oai:metadata", "Missing child"),
        (raw("<metadata>text</metadata>"), 3, "oai:metadata", "Missing child"),
        (raw('<metadata><a xmlns="urn:a"/></metadata>'), 3, "{urn:a}a", "format oai_dc are in the namespace"),
        (raw("<metadata><dc/></metadata>"), 3, "oai:dc", "not expected"),
        (raw('<metadata><a xmlns="urn:a"/><b xmlns="urn:a"/></metadata>'), 3, "{urn:a}b", "not expected"),
        (etree.fromstring(f'<header xmlns="{OAI}"/>'), 1, "oai:header", "not defined here"),
    ],
)  # fmt: skip
def test_each_fault_is_reported_with_line_element_and_reason(
    bad: etree._Element, line: int, element: str, reason: str
) -> None:
    found = faults(bad)

    start = f"line {line}, element {element!r}: "
    assert any(fault.startswith(start) and reason in fault for fault in found), found


def test_all_faults_of_a_record_are_returned_in_line_order() -> None:
    bad = record(
        "\n<dc:a/>\n<dc:b/>", header=header(datestamp="soon", rest="<setSpec> </setSpec>"), about="\n<about/>"
    )

    lines = [int(re.findall(r"^line (\d+),", fault)[0]) for fault in faults(bad)]

    assert lines == [2, 3, 4, 5, 6]


def test_lines_are_those_of_the_answer_whatever_the_neighbouring_records() -> None:
    _, second = list_of(record_xml("\n<dc:a/>\n"), record_xml("\n<dc:b/>\n"))

    assert faults(second) == ["line 4, element 'dc:b': this element is not defined here"]


PART = "urn:example:part"
PART_SCHEMA = schema(
    '<xs:complexType name="t"><xs:attribute name="ID" type="xs:ID"/></xs:complexType>'
    '<xs:element name="all"><xs:complexType><xs:sequence><xs:element name="p" type="t" maxOccurs="9"/>'
    "</xs:sequence></xs:complexType></xs:element>",
    PART,
)


@pytest.mark.parametrize("outer", ["", f' xmlns:o="{PART}"'], ids=["plain", "prefix of the answer"])
def test_an_id_must_be_unique_in_its_record_and_not_on_the_page(outer: str) -> None:
    grammar = Grammar(etree.XMLSchema(etree.fromstring(PART_SCHEMA.encode())))
    kind = ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="o:t"' if outer else ""
    one = f'<all xmlns="{PART}">\n<p ID="D1"{kind}/>%s</all>'
    page = etree.fromstring(f"<page{outer}>{one * 3}</page>" % ("", "", '<p ID="D1"/>'))

    first, second, third = map(grammar.faults, page)

    assert (first, second) == ([], [])
    ((line, text),) = third
    assert (line, "'D1' is not a valid value" in text) == (4, True)


def test_a_fault_with_a_very_long_value_is_truncated() -> None:
    bad = record("", header=header(datestamp="x" * 100_000))

    assert max(map(len, faults(bad))) == 300


def test_validation_does_not_change_the_record() -> None:
    bad = record("<dc:titel/>")
    before = etree.tostring(bad)

    faults(bad)

    assert etree.tostring(bad) == before


def test_threads_may_share_a_validator() -> None:
    records = [record(f"<dc:x{number}/>") for number in range(200)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(faults, records))

    assert [len(each) for each in found] == [1] * 200
    assert all(f"'dc:x{number}'" in each[0] for number, each in enumerate(found))


async def validator(
    folder: Path,
    server: SchemaServer,
    *,
    prefix: str = "book",
    namespace: str = BOOK,
    path: str = "/book.xsd",
) -> Validator:
    """Return the validator for a repository that announces one format."""

    async def formats() -> list[FormatInfo]:
        return [
            FormatInfo(
                metadata_prefix="book", schema=f"{server.url}{path}" if path else "", namespace=namespace
            )
        ]

    return await prepare_validator(prefix, formats, schemas(folder))


def book(content: str = "", *, title: str = "A", location: str = "") -> etree._Element:
    named = f' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="{location}"'
    return raw(
        f'<metadata><book xmlns="{BOOK}"{named if location else ""}>\n'
        f"<title>{title}</title><author>Ann</author>"
        f"<pages>3</pages>{content}</book></metadata>"
    )


NOTE_ELEMENT = f'<note xmlns="{NOTE}">{{}}</note>'


async def test_the_schema_announced_by_the_repository_overrides_the_one_named_by_the_record(
    tmp_path: Path,
) -> None:
    async with serve_schemas() as server:
        checks = await validator(tmp_path, server)
        elsewhere = book(location=f"{BOOK} {server.url}/other.xsd")
        await checks.learn([elsewhere])

    assert checks.faults(elsewhere) == []
    assert checks.faults(book(title="")) == [
        (
            "line 4, element '{urn:example:book}title': "
            "The value has a length of '0'; this underruns the allowed minimum length of '1'"
        )
    ]
    assert checks.faults(raw('<metadata><book xmlns="urn:x"/></metadata>')) == [
        "line 3, element '{urn:x}book': metadata in the format book are in the namespace urn:example:book"
    ]
    assert "/other.xsd" not in server.asked


async def test_a_record_names_the_schemas_of_further_namespaces(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        checks = await validator(tmp_path, server)
        good, bad = (
            book(NOTE_ELEMENT.format(date), location=f"{NOTE} {server.url}/note.xsd")
            for date in ("2024-05-01", "May")
        )
        before = checks.faults(bad)
        await checks.learn([good, bad])
        await checks.learn([good, bad])

    assert before == []
    assert checks.faults(good) == []
    assert "'May' is not a valid value" in checks.faults(bad)[0]
    assert server.asked["/note.xsd"] == 1


async def test_schema_locations_around_the_record_are_used_and_unneeded_ones_are_not_fetched(
    tmp_path: Path,
) -> None:
    async with serve_schemas() as server:
        checks = await validator(tmp_path, server, path="")
        answer = etree.fromstring(
            f'<OAI-PMH xmlns="{OAI}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
            f'xsi:schemaLocation="{BOOK} {server.url}/book.xsd '
            f'{NOTE} {server.url}/no.xsd {OAI} {server.url}/oai.xsd">'
            f"{etree.tostring(book(title='')).decode()}</OAI-PMH>"
        )
        assert "no schema is named for the namespace urn:example:book" in checks.faults(answer[0])[0]
        await checks.learn([answer[0]])

    assert "underruns" in checks.faults(answer[0])[0]
    assert not {"/no.xsd", "/oai.xsd"} & set(server.asked)


async def test_a_schema_named_by_a_record_that_is_not_available_fails_the_run(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        checks = await validator(tmp_path, server)

        with pytest.raises(
            StrictCheckError, match=r"no\.xsd, named by the record '.*', is not available: HTTP status 404"
        ):
            await checks.learn([book(NOTE_ELEMENT, location=f"{NOTE} {server.url}/no.xsd")])


async def test_a_format_that_is_not_announced_is_validated_by_the_schemas_its_records_name(
    tmp_path: Path,
) -> None:
    async with serve_schemas() as server:
        checks = await validator(tmp_path, server, prefix="other")
        named = book(title="", location=f"{BOOK} {server.url}/book.xsd")
        await checks.learn([named, tombstone()])

    assert "underruns" in checks.faults(named)[0]


async def test_dublin_core_is_validated_without_requests_under_any_prefix(tmp_path: Path) -> None:
    async with serve_schemas({}) as server:
        checks = await validator(tmp_path, server, namespace=OAI_DC)
        await checks.learn([record("<dc:title/>")])

    assert not server.asked
    assert checks.faults(record("<dc:title/>")) == []
    assert len(checks.faults(record("<dc:titel/>"))) == 1


ANSWER = """<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">
<responseDate>2024-05-01T10:00:00Z</responseDate>
<request verb="ListRecords" metadataPrefix="oai_dc" from="2024-01-01" set="a:b">http://a.example/oai</request>
<ListRecords><record><header><identifier>a</identifier><datestamp>2024-05-01</datestamp></header>
<metadata><x xmlns="urn:x"/></metadata></record>
<resumptionToken cursor="0" completeListSize="2" expirationDate="2024-05-01T10:00:00Z">x</resumptionToken>
</ListRecords></OAI-PMH>"""
IDENTIFY = """<Identify><repositoryName>A</repositoryName><baseURL>http://a.example/</baseURL>
<protocolVersion>2.0</protocolVersion><adminEmail>a@b.example</adminEmail><adminEmail>c@b.example</adminEmail>
<earliestDatestamp>2000-01-01</earliestDatestamp><deletedRecord>no</deletedRecord><granularity>YYYY-MM-DD</granularity>
<compression>gzip</compression><description><x xmlns="urn:x"/></description></Identify>"""
OTHER_ANSWERS = [
    IDENTIFY,
    '<error code="badVerb">x</error><error code="badArgument"/>',
    (
        "<ListMetadataFormats><metadataFormat><metadataPrefix>a</metadataPrefix><schema>http://a/</schema>"
        "<metadataNamespace>urn:a</metadataNamespace></metadataFormat></ListMetadataFormats>"
    ),
    (
        "<ListSets><set><setSpec>a</setSpec><setName/><setDescription>"
        '<x xmlns="urn:x"/></setDescription></set>'
        "<resumptionToken/></ListSets>"
    ),
    (
        "<ListIdentifiers><header status='deleted'><identifier>a</identifier>"
        "<datestamp>2024-05-01</datestamp>"
        "</header></ListIdentifiers>"
    ),
    "<GetRecord><record><header><identifier>a</identifier><datestamp>2024-05-01</datestamp></header></record></GetRecord>",
]
GOOD_ANSWERS = [
    ANSWER,
    *(ANSWER[: ANSWER.index("<ListRecords>")] + other + "</OAI-PMH>" for other in OTHER_ANSWERS),
]
BAD_ANSWERS = [
    *(ANSWER.replace(old, new) for old, new in [
        ("10:00:00Z</responseDate>", "10 am</responseDate>"), ('verb="ListRecords"', 'verb="List"'),
        ('set="a:b"', 'set="a:"'),
        ('from="2024-01-01"', 'from="2024"'), ('cursor="0"', 'cursor="-1"'), ('Size="2"', 'Size="0"'),
        ("urn:x", OAI),
        ("<ListRecords>", "<ListRecords><x/>"), ("</ListRecords>", "</ListRecords><error code='badVerb'/>"),
        ("<request", "<requests/><request"), ("ListRecords>", "ListThings>"),
        ("<identifier>a</identifier>", ""),
        ("</ListRecords>", "<resumptionToken/></ListRecords>"),
    ]),
    *(GOOD_ANSWERS[1].replace(old, new) for old, new in [
        ("2.0<", "1.1<"), ("a@b.example", "a"), (">no<", ">sometimes<"), ("DD</g", "D</g"),
        ("<adminEmail>a@b.example</adminEmail><adminEmail>c@b.example</adminEmail>", ""),
    ]),
    GOOD_ANSWERS[2].replace("badVerb", "worseVerb"),
    GOOD_ANSWERS[3].replace("<metadataPrefix>a", "<metadataPrefix>a b"),
]  # fmt: skip


def answer_of(text: str) -> etree._Element:
    """Return any element of an answer, to validate the whole answer."""
    return etree.fromstring(text)[0]


@pytest.mark.parametrize("text", GOOD_ANSWERS)
def test_answers_to_every_verb_are_valid(text: str) -> None:
    assert own_validator("oai_dc").answer_faults(answer_of(text)) == []


@pytest.mark.parametrize("text", BAD_ANSWERS)
def test_faults_outside_the_records_are_found(text: str) -> None:
    assert text not in GOOD_ANSWERS
    assert own_validator("oai_dc").answer_faults(answer_of(text)) != []


def test_a_record_without_an_answer_has_no_faults_of_the_answer() -> None:
    assert own_validator("oai_dc").answer_faults(record("")) == []


@pytest.mark.skipif(not SHARED.exists(), reason="no published schemas here")
@pytest.mark.parametrize("text", GOOD_ANSWERS + BAD_ANSWERS)
def test_our_grammar_of_answers_agrees_with_the_published_one(text: str) -> None:
    # The published schema also validates the content of metadata and description; this is turned off here.
    published = (
        (SHARED / "schemas" / "OAI-PMH.xsd")
        .read_bytes()
        .replace(b'processContents="strict"', b'processContents="skip"')
    )
    theirs = etree.XMLSchema(etree.fromstring(published)).validate(etree.fromstring(text))

    assert (own_validator("oai_dc").answer_faults(answer_of(text)) == []) is theirs


@pytest.mark.skipif(not SHARED.exists(), reason="no published schemas here")
async def test_the_published_schema_of_marc_21_is_read_from_the_cache(tmp_path: Path) -> None:
    address = "https://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd"
    marc = "http://www.loc.gov/MARC21/slim"
    found = schemas(tmp_path)
    found.cache.write(address, (SHARED / "schemas" / "MARC21slim.xsd").read_bytes())

    async def formats() -> list[FormatInfo]:
        return [FormatInfo(metadata_prefix="marc21", schema=address, namespace=marc)]

    checks = await prepare_validator("marc21", formats, found)
    field = '<datafield tag="245" ind1=" " ind2="0"><subfield code="a">T</subfield></datafield>'
    leader = "<leader>00000nam a2200000 a 4500</leader>"
    good = f'<metadata><record xmlns="{marc}">{leader}{field}</record></metadata>'

    assert checks.faults(raw(good)) == []
    assert checks.faults(raw(good.replace('tag="245"', 'tag="24"')))[0].startswith(
        "line 3, element 'marc:datafield/@tag': "
    )
    assert "'00000'" in checks.faults(raw(good.replace("00000nam a2200000 a 4500", "00000")))[0]


@pytest.mark.skipif(not SHARED.exists(), reason="no published schemas here")
async def test_the_published_schema_of_oai_dc_is_read_with_its_import(tmp_path: Path) -> None:
    found = schemas(tmp_path)
    for name in ("oai_dc.xsd", "simpledc20021212.xsd"):
        text = (SHARED / "schemas" / name).read_text(encoding="utf-8")
        for address in (f"http://a.example/{name}", f"http://dublincore.org/schemas/xmls/{name}"):
            found.cache.write(address, text.encode())

    await found.gather(OAI_DC, "http://a.example/oai_dc.xsd", by="a record")
    published = found.compile({OAI_DC: "http://a.example/oai_dc.xsd"})

    for content in ("<dc:title>a</dc:title>", "<dc:titel/>", "<dc:title><b/></dc:title>", "text"):
        root = record(content).find(f".//{{{OAI_DC}}}dc")
        assert root is not None
        assert (faults(record(content)) == []) is published.validate(root)


@pytest.mark.skipif(not SHARED.exists(), reason="no recorded answers here")
def test_stray_text_in_a_recorded_answer_is_found() -> None:
    tree = etree.parse(str(SHARED / "replies" / "ListRecords2.xml"))

    found = [faults(each) for each in tree.findall(f".//{{{OAI}}}record")]

    assert found == [
        [],
        ["line 22, element 'oai_dc:dc': this element may contain only elements, not text"],
    ]
