"""setSpecs are valid by the schema, and different names have different ones."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai.errors import UsageError
from provider.holdings.sets import (
    Tree,
    ancestors,
    children,
    collection_set_spec,
    domain_set_specs,
    host_of,
    is_set_spec,
    mimetype_set_specs,
)
from tests.provider.holdings.staff import Staff

# Written out from OAI-PMH.xsd, setSpecType, so as not to trust the module's own pattern.
SCHEMA = re.compile(r"([A-Za-z0-9\-_\.!~\*'\(\)])+(:[A-Za-z0-9\-_\.!~\*'\(\)]+)*")
TOKEN = st.text("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-", min_size=1, max_size=20)


def test_a_host_is_in_the_set_of_each_of_its_domains() -> None:
    assert domain_set_specs("www.webarchiv.cz") == (
        ("domain:cz", "cz", 1),
        ("domain:cz:webarchiv", "webarchiv.cz", 2),
        ("domain:cz:webarchiv:www", "www.webarchiv.cz", 3),
    )


@pytest.mark.parametrize(
    ("host", "spec"),
    [
        ("localhost", "domain:localhost"),
        ("my_host.example", "domain:example:my_host"),
        ("192.168.1.10", "domain:~ip:192.168.1.10"),
        ("2001:db8::1", "domain:~ip:2001!3Adb8!3A!3A1"),
        ("10.1.168.ip", "domain:ip:168:1:10"),
        ("a..b", "domain:b:~:a"),
        ("~ip", "domain:!7Eip"),
        ("a!b", "domain:a!21b"),
        ("žatva.cz", "domain:cz:!C5!BEatva"),
        ("host:8080", "domain:host!3A8080"),
    ],
)
def test_unusual_hosts_have_escaped_set_specs(host: str, spec: str) -> None:
    assert domain_set_specs(host)[-1][0] == spec


@given(st.text() | st.ip_addresses().map(str) | st.from_regex(r"[A-Za-z0-9_.!~:-]+", fullmatch=True))
def test_the_set_spec_of_every_host_is_valid(host: str) -> None:
    specs = domain_set_specs(host)
    assert all(SCHEMA.fullmatch(spec) for spec, _, _ in specs)
    assert [level for _, _, level in specs] == list(range(1, len(specs) + 1))


@given(st.text(), st.text())
def test_different_hosts_have_different_set_specs(one: str, other: str) -> None:
    assert (domain_set_specs(one)[-1][0] == domain_set_specs(other)[-1][0]) == (one == other)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://www.Webarchiv.CZ:8080/x?y#z", "www.webarchiv.cz"),
        ("https://user:secret@example.com", "example.com"),
        ("http://example.com./", "example.com"),
        ("http://[2001:DB8::1]:80/", "2001:db8::1"),
        ("http://žatva.cz/", "xn--atva-kbb.cz"),
        ("ftp://10.0.0.1/file", "10.0.0.1"),
        ("http:///path", None),
        ("http://a:b:c/", None),
        ("urn:uuid:1", None),
        ("not a url", None),
    ],
)
def test_the_host_of_a_url_is_extracted(url: str, host: str | None) -> None:
    assert host_of(url) == host


def test_a_host_that_is_too_long_for_a_name_is_not_converted() -> None:
    assert host_of("http://" + "é" * 5000 + ".example/") == "é" * 5000 + ".example"


@given(st.text())
def test_the_host_of_any_text_is_none_or_not_empty(text: str) -> None:
    host = host_of(f"http://{text}/")
    assert host is None or host


def test_a_mime_type_is_in_the_set_of_its_major_type() -> None:
    assert mimetype_set_specs("image/svg+xml") == (
        ("mimetype:image", "image"),
        ("mimetype:image:svg!2Bxml", "image/svg+xml"),
    )


def test_parameters_and_case_of_a_mime_type_are_ignored() -> None:
    assert mimetype_set_specs("Text/HTML; charset=utf-8") == mimetype_set_specs("text/html")


@pytest.mark.parametrize(
    "malformed", [None, "", "text", "no-type", "text/", "text/html/x", "te xt/html", "é/x"]
)
def test_a_malformed_mime_type_is_unknown(malformed: str | None) -> None:
    assert mimetype_set_specs(malformed) == (("mimetype:unknown", "unknown"),)


@given(TOKEN, TOKEN, TOKEN, TOKEN)
def test_different_mime_types_have_different_set_specs(
    major: str, minor: str, other: str, another: str
) -> None:
    specs = [mimetype_set_specs(f"{one}/{two}")[-1][0] for one, two in ((major, minor), (other, another))]
    assert (specs[0] == specs[1]) == ((major, minor) == (other, another))


@given(TOKEN, TOKEN)
def test_the_set_spec_of_every_mime_type_is_valid(major: str, minor: str) -> None:
    specs = mimetype_set_specs(f"{major}/{minor}")
    assert all(SCHEMA.fullmatch(spec) for spec, _ in specs)
    assert [name for _, name in specs] == [major, f"{major}/{minor}"]


@pytest.mark.parametrize("text", ["serials:nov07", "collection:serials:nov07"])
def test_a_collection_may_be_written_with_or_without_its_root(text: str) -> None:
    assert collection_set_spec(text) == "collection:serials:nov07"


@pytest.mark.parametrize("text", ["", ":", "a:", ":a", "a b", "a!b", "č", "a\n", "x" * 1001])
def test_a_collection_that_cannot_be_a_set_spec_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 'serials:nov07'"):
        collection_set_spec(text)


def test_ancestors_are_listed_from_the_root() -> None:
    assert ancestors("collection:serials:nov07") == ("collection", "collection:serials")
    assert ancestors("collection") == ()


@given(st.text())
def test_set_specs_are_validated_as_by_the_schema(text: str) -> None:
    assert is_set_spec(text) == bool(SCHEMA.fullmatch(text))


def test_child_sets_are_listed_in_pages_and_show_whether_they_have_children(staff: Staff) -> None:
    staff.make("a:b:c", "a:d", "e")
    with staff.database.session() as session:
        top = children(session, Tree.COLLECTION, below="collection", limit=2)
        rest = children(session, Tree.COLLECTION, below="collection", limit=9, after=top[-1].set_spec)
        below = children(session, Tree.COLLECTION, below="collection:a", limit=9)
    found = [
        [(one.set_spec.rpartition(":")[2], one.has_children) for one in page] for page in (top, rest, below)
    ]
    assert found == [[("a", True), ("e", False)], [("x", True), ("z", False)], [("b", True), ("d", False)]]
