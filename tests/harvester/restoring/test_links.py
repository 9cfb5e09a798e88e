"""Links into the copy, out of it, and through redirects."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.restoring.addresses import canonical, joined
from harvester.restoring.links import PageLinks, SiteMap, Target

_PAGE = "http://h.example/news/today.html"
_SITE = SiteMap(
    [
        Target(url="http://h.example/", path="h.example/index.html"),
        Target(url="http://h.example/a%20b/%c5%88?q=1&r=2", path="h.example/a%20b/x@q=1&r=2.html"),
        Target(url="https://www.h.example/img/c,d.gif", path="www.h.example/img/c,d.gif"),
        Target(url="http://h.example/old", path="h.example/old.html", leads_to="http://h.example/older#part"),
        Target(url="http://h.example/older", path="h.example/older.html", leads_to="https://h.example/"),
        Target(url="http://h.example/out", path="h.example/out.html", leads_to="http://out.example/"),
        Target(url="http://h.example/loop", path="h.example/loop.html", leads_to="http://h.example/loop"),
        Target(url="http://h.example/q?x=%F8", path="h.example/q.html"),
    ]
)


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("/", "../index.html"),
        (" \n/#top ", "../index.html#top"),
        ("..", "../index.html"),
        ("//h.example/", "../index.html"),
        ("HTTPS://H.Example:443/", "../index.html"),
        ("http://h.example", "../index.html"),
        ("http:\\\\h.example\\", "../index.html"),
        ("/a b/ň?q=1&r=2", "../a%2520b/x@q=1&r=2.html"),
        ("http://h.example/img/c,d.gif", "../../www.h.example/img/c%2Cd.gif"),
        ("/old", "../index.html#part"),
        ("/old#mine", "../index.html#mine"),
        ("/out", "../out.html"),
        ("/loop", "../loop.html"),
        ("/q?x=ř", "../q.html"),
        ("lost.html?x='1'", "http://h.example/news/lost.html?x=%271%27"),
        ("//out.example/x", "http://out.example/x"),
        ("http://out.example/X y", None),
        ("#top", None),
        ("", None),
        ("mailto:a@h.example", None),
        ("JavaScript:void(0)", None),
        ("data:image/gif;base64,AA", None),
        ("http://[broken/", None),
    ],
)
def test_links_are_rewritten_relative_to_the_copy(link: str, becomes: str | None) -> None:
    links = PageLinks(_SITE, _PAGE, "h.example/news/today.html", "cp1250")
    assert links.text(link) == becomes


def test_a_base_element_applies_to_all_links_and_to_fragments() -> None:
    links = PageLinks(_SITE, _PAGE, "h.example/news/today.html")
    links.set_base("http://h.example/a/")
    links.set_base("http://other.example/")
    assert links.text("../#x") == "../index.html#x"
    assert links.text("#x") == "http://h.example/a/#x"


@settings(deadline=None)
@given(base=st.text(max_size=30), link=st.text(max_size=60))
def test_any_link_is_read_without_an_error(base: str, link: str) -> None:
    whole = joined(f"http://h.example/{base}", link)
    assert whole is None or whole.lower().startswith(("http://", "https://"))
    assert canonical(canonical(link)) == canonical(link)
