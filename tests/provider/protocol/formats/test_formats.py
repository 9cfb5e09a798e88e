"""Common properties of all formats, and the contents of each."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from lxml import etree

from oai.errors import SettingsError, UsageError
from oai.sections import ProviderSettings
from oai.xml import escape
from provider.protocol.formats import FORMATS, offered_formats, registry, webarchive
from provider.protocol.formats.format import Site
from tests.provider.answer import Reply
from tests.provider.archive import Archive
from tests.provider.conftest import Provider
from tests.provider.protocol.formats.item import SITE, WHOLE, item

REPLAY = "https://archive.example/archive/0123456789abcdef0123456789abcdef"


def tree(prefix: str, **changes: object) -> Reply:
    return Reply(root=etree.fromstring(FORMATS[prefix].write(item(**changes), SITE)))


@pytest.mark.parametrize("prefix", FORMATS)
def test_each_format_is_registered_under_its_prefix_and_writes_in_its_namespace(prefix: str) -> None:
    format_ = FORMATS[prefix]
    root = etree.fromstring(format_.write(WHOLE, SITE))
    assert format_.prefix == prefix
    assert etree.QName(root).namespace == format_.namespace
    location = root.get("{http://www.w3.org/2001/XMLSchema-instance}schemaLocation")
    assert location == f"{format_.namespace} {format_.schema_url(SITE.base_url)}"


async def test_every_format_is_valid_for_complete_and_incomplete_documents(
    provider: Provider, archive: Archive
) -> None:
    hostile = "\ufffe\x01<T> & ]]> \U0001d11e \u202etitle\r\n\t"
    known = [
        archive.add("http://www.example.cz/<&>\u202e\U0001f600\x01", title=hostile, digest="sha1:<&>"),
        archive.add(mime_type="image/svg+xml", collections=["collection:a:b", "collection:c"]),
        archive.add("no URL at all", mime_type="no-type", title="\x01", http_status=None, length=None),
        archive.add(access="reading room"),
        archive.add(access="embargo", embargo_until=WHOLE.archived),
        archive.add(access="withheld"),
        archive.add(deleted=True),
    ]
    for prefix in FORMATS:
        pages = await provider.pages(verb="ListRecords", metadataPrefix=prefix)
        assert [identifier for page in pages for identifier in page.identifiers] == known, prefix
        assert [identifier for page in pages for identifier in page.deleted] == known[-2:], prefix


@pytest.mark.parametrize(
    ("prefix", "path", "expected"),
    [
        ("marc21", "//marc:controlfield[@tag='001']", [WHOLE.key.hex]),
        ("marc21", "//marc:controlfield[@tag='003']", ["archive.example"]),
        ("marc21", "//marc:controlfield[@tag='005']", ["20240102030405.0"]),
        (
            "marc21",
            "//marc:controlfield[@tag='008']",
            ["240102e20080106xx      o  d        und d"],
        ),
        ("marc21", "//marc:datafield[@tag='024']/*", ["sha1:ABC"]),
        ("marc21", "//marc:datafield[@tag='245']/*", ["A  title \U0001d11e"]),
        ("marc21", "//marc:datafield[@tag='347']/*", ["text/html", "321 bytes"]),
        ("marc21", "//marc:datafield[@tag='500']/*", ["HTTP status 404"]),
        ("marc21", "//marc:datafield[@tag='506'][@ind1='0']/*", [SITE.settings.rights_open]),
        ("marc21", "//marc:datafield[@tag='518']/*", ["Captured", "2008-01-06T19:16:55Z"]),
        ("marc21", "//marc:datafield[@tag='773']/*", ["one.warc", "byte 17"]),
        ("marc21", "//marc:datafield[@tag='830']/*", ["A & B", "C"]),
        ("marc21", "//marc:datafield[@tag='856']/*[@code='u']", [REPLAY, WHOLE.url]),
        ("mods", "mods:titleInfo/mods:title", ["A  title \U0001d11e"]),
        ("mods", "mods:typeOfResource", ["text"]),
        ("mods", "mods:originInfo/mods:dateCaptured", ["2008-01-06T19:16:55Z"]),
        ("mods", "mods:physicalDescription/*", ["text/html", "321 bytes", "born digital"]),
        ("mods", "mods:note", ["404"]),
        ("mods", "mods:relatedItem[@type='series']//mods:title", ["A & B", "C"]),
        ("mods", "mods:relatedItem[@type='host']//mods:title", ["one.warc"]),
        ("mods", "mods:relatedItem[@type='host']//mods:number", ["17"]),
        ("mods", "mods:identifier", [WHOLE.url, "sha1:ABC"]),
        ("mods", "mods:location/mods:url", [WHOLE.url, REPLAY]),
        ("mods", "mods:accessCondition", [SITE.settings.rights_open]),
        ("mods", "mods:recordInfo/*", [f"oai:archive.example:{WHOLE.key.hex}", "2024-01-02T03:04:05Z"]),
        ("webarchive", "w:url", [WHOLE.url]),
        ("webarchive", "w:captured", ["2008-01-06T19:16:55.120000Z"]),
        ("webarchive", "w:title", ["A  title \U0001d11e"]),
        ("webarchive", "w:mimeType", ["text/html"]),
        ("webarchive", "w:httpStatus", ["404"]),
        ("webarchive", "w:digest", ["sha1:ABC"]),
        ("webarchive", "w:length", ["321"]),
        ("webarchive", "w:recordType", ["response"]),
        ("webarchive", "w:archiveFile[@offset='17']", ["one.warc"]),
        ("webarchive", "w:collection[@setSpec='collection:a:b']", ["A & B"]),
        ("webarchive", "w:rights[@access='open']", [SITE.settings.rights_open]),
        ("webarchive", "w:replay", [REPLAY]),
    ],
)
def test_formats_contain_the_fields_of_a_document(prefix: str, path: str, expected: Sequence[str]) -> None:
    assert tree(prefix).texts(path) == expected


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        ("oai_dc", "dc:rights"),
        ("marc21", "//marc:datafield[@tag='506'][@ind1='1']/*"),
        ("mods", "mods:accessCondition"),
        ("webarchive", "w:rights[@access='embargo']"),
    ],
)
def test_a_document_under_embargo_shows_its_end_and_no_link(prefix: str, path: str) -> None:
    until = datetime(2031, 5, 6, tzinfo=UTC)
    found = tree(prefix, access="embargo", embargo_until=until)
    (statement,) = found.texts(path)
    assert "2031-05-06" in statement
    assert REPLAY not in etree.tostring(found.root, encoding="unicode")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, REPLAY),
        ("https://replay.example/{key}", f"https://replay.example/{WHOLE.key.hex}"),
        (
            "https://replay.example/web/{timestamp}/{url}",
            "https://replay.example/web/20080106191655/http://example.cz/?a=1&b=%3C2%3E",
        ),
    ],
)
def test_the_replay_address_is_the_archives_own_or_made_from_the_template(
    template: str | None, expected: str
) -> None:
    site = Site(base_url=SITE.base_url, settings=ProviderSettings(replay_url=template))
    assert site.replay_url(WHOLE) == expected
    assert site.escaped_replay_url(WHOLE) == escape(expected)


def test_the_archives_own_replay_address_is_escaped() -> None:
    site = Site(base_url="http://a.example/x&y/oai", settings=ProviderSettings())
    assert site.escaped_replay_url(WHOLE) == f"http://a.example/x&amp;y/archive/{WHOLE.key.hex}"


def test_a_whole_second_is_written_without_a_fraction_in_webarchive() -> None:
    whole_second = WHOLE.archived.replace(microsecond=0)
    assert tree("webarchive", archived=whole_second).texts("w:captured") == ["2008-01-06T19:16:55Z"]


def test_a_repeated_metadata_prefix_is_refused() -> None:
    with pytest.raises(UsageError, match="'webarchive' is used twice"):
        registry(webarchive.FORMAT, webarchive.FORMAT)


def test_the_settings_select_formats_and_dublin_core_is_always_offered() -> None:
    assert list(offered_formats(["mods"])) == ["oai_dc", "mods"]
    assert list(offered_formats([])) == list(FORMATS)


def test_an_unknown_format_in_the_settings_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"'marcxml'; choose from oai_dc, marc21, mods, webarchive"):
        offered_formats(["mods", "marcxml"])
