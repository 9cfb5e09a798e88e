"""URL keys are those that CDX indexes are sorted by."""

import pytest

from provider.holdings.urlkeys import WwwRule, bare_roots, key_prefix, prefixes, spellings, url_key
from tests.provider.holdings.pywb_keys import PYWB_KEYS

NUMBERED = WwwRule.NUMBERED


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://www.example.com/", "com,example)/"),
        ("http://example.com", "com,example)/"),
        ("http://www2.example.com/x?", "com,example)/x"),
        ("https://Example.com:443/Path/File.html?b=2&a=1", "com,example)/path/file.html?a=1&b=2"),
        ("http://example.com:8080/a/", "com,example:8080)/a"),
        ("http://192.0.2.1/x", "1,2,0,192)/x"),
        ("example.com/a?B&a", "com,example)/a?a&b"),
        ("http://user@example.com/x#part", "com,example)/x"),
        ("http://example.com/a?b=1=2&b=1", "com,example)/a?b=1&b=1=2"),
        ("http://bücher.example/ž", "example,xn--bcher-kva)/%c5%be"),
        ("http://example.com/%7Ea/b%20c", "com,example)/~a/b%20c"),
        ("http://www.com/", "com)/"),
    ],
)
def test_a_key_omits_parts_of_the_url_that_seldom_distinguish_pages(url: str, key: str) -> None:
    assert url_key(url, NUMBERED) == key


@pytest.mark.parametrize("url", PYWB_KEYS)
def test_keys_equal_those_of_pywb(url: str) -> None:
    assert url_key(url, NUMBERED) == PYWB_KEYS[url]


@pytest.mark.parametrize(
    "url",
    [
        f"http://{'1' * 9000}/",
        f"http://a.example:{'1' * 9000}/",
        "http://a.example:²/",
        "http://2001:db8::1/",
        "filedesc://č.arc",
        "\ud800",
    ],
)
def test_the_key_of_an_invalid_url_is_ascii(url: str) -> None:
    assert url_key(url, NUMBERED).isascii()


@pytest.mark.parametrize(
    ("url", "beginning"),
    [
        ("http://a.example/path/", "example,a)/path/"),
        ("http://a.example/path", "example,a)/path"),
        ("http://a.example/path?", "example,a)/path?"),
        ("http://a.example", "example,a)/"),
    ],
)
def test_a_prefix_keeps_its_last_character(url: str, beginning: str) -> None:
    assert key_prefix(url, NUMBERED) == beginning


@pytest.mark.parametrize(
    "url",
    [
        "http://www.a.example/x/?q=1",
        "a.example/x?q=1",
        "https://a.example/x?q=1",
        "http://a.example:80/x?q=1",
    ],
)
def test_all_spellings_have_one_key(url: str) -> None:
    found = spellings(url, NUMBERED)
    assert {url_key(one, NUMBERED) for one in found} == {"example,a)/x?q=1"}
    assert {"http://a.example/x?q=1", "https://www.a.example/x/?q=1"} <= set(found)


def test_a_port_stays_in_all_spellings() -> None:
    assert "http://a.example:8080/x" in spellings("http://a.example:8080/x", NUMBERED)
    assert "http://a.example/x" not in spellings("http://a.example:8080/x", NUMBERED)


def test_spellings_of_an_ip_address_have_no_www() -> None:
    assert set(prefixes("http://[2001:db8::1]/x", NUMBERED)) == {
        "http://[2001:db8::1]/x",
        "http://[2001:db8::1]:80/x",
        "https://[2001:db8::1]/x",
        "https://[2001:db8::1]:443/x",
    }


def test_the_prefix_of_a_host_ends_in_a_slash() -> None:
    assert "http://a.example/" in prefixes("a.example", NUMBERED)
    assert all(one.endswith("/") for one in prefixes("a.example", NUMBERED))


def test_a_root_url_is_also_looked_up_without_its_slash() -> None:
    assert {"http://a.example", "https://www.a.example"} <= set(bare_roots("http://a.example/", NUMBERED))
    assert bare_roots("ftp://f.example/", NUMBERED)[0] == "ftp://f.example"
    assert not bare_roots("http://a.example/x", NUMBERED)
    assert not bare_roots("http://a.example/?x=1", NUMBERED)
    assert not bare_roots("http://a.example/#x", NUMBERED)


@pytest.mark.parametrize(
    ("beginning", "repeated"),
    [
        ("http://a.example/?", "cfid="),
        ("http://a.example/%", "25"),
        ("http://a.example/a.aspx/", "(a(bbbbbbbbbbbbbbbbbbbbbbbb))/"),
    ],
)
def test_the_key_of_a_url_of_megabytes_is_made_without_delay(beginning: str, repeated: str) -> None:
    url = beginning + repeated * (4_000_000 // len(repeated))
    assert url_key(url, WwwRule.NUMBERED).startswith(f"example,a)/{beginning[17:]}")


def test_the_last_session_id_of_each_kind_is_omitted() -> None:
    session = "(a(bbbbbbbbbbbbbbbbbbbbbbbb))/"
    url = f"http://a.example/{session}{session}x.aspx?cfid=1cfid=&cftoken=2&cfid=3&cftoken=4&c=5"
    assert url_key(url, WwwRule.NUMBERED) == f"example,a)/{session}x.aspx?c=5&cfid=1cfid=&cftoken=2"
