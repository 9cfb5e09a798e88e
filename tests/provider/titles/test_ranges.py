"""The ranges of URL keys of a seed, and the division of overlapping seeds."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.holdings.urlkeys import WwwRule, url_key
from provider.models import Access
from provider.titles.ranges import (
    Claim,
    KeyRange,
    ListedRange,
    RangeRules,
    Segment,
    divide,
    meets,
    merged,
    ranges_of,
    ranges_of_address,
    replaced,
    strictest_access,
    widest_range,
)

NUMBERED = WwwRule.NUMBERED
HOST = RangeRules()
DOMAIN = RangeRules(host="domain")
EXACT = RangeRules(file="url")

CASES = [
    # The seed, the rules, a URL that belongs to it, and one that does not.
    ("http://x.cz/", HOST, "https://www.x.cz/a/b?c=1", "http://blog.x.cz/"),
    ("x.cz", HOST, "http://x.cz", "http://x.czech/"),
    ("http://www.x.cz", HOST, "http://x.cz/y", "http://xx.cz/"),
    ("http://x.cz/", DOMAIN, "http://blog.x.cz/a", "http://xx.cz/"),
    ("http://x.cz/", DOMAIN, "http://x.cz/a", "http://x.czech/"),
    ("http://x.cz:8080/", DOMAIN, "http://x.cz:8080/a", "http://x.cz/a"),
    ("http://x.cz/", HOST, "http://x.cz:80/a", "http://x.cz:8080/a"),
    ("x.cz:8080/a", HOST, "http://x.cz:8080/a/b", "http://x.cz/a"),
    ("http://x.cz/a/", HOST, "http://x.cz/a", "http://x.cz/ab"),
    ("http://x.cz/a", HOST, "http://x.cz/a/b/c.html", "http://x.cz/"),
    ("http://x.cz/a/", HOST, "http://x.cz/a?page=2", "http://x.cz/b"),
    ("http://x.cz/a/", HOST, "http://x.cz/A/b", "http://x.cz/a-b"),
    ("http://x.cz/a/index.html", HOST, "http://x.cz/a/other.html", "http://x.cz/b"),
    ("http://x.cz/index.php?id=5", HOST, "http://x.cz/anything", "http://y.cz/"),
    ("http://x.cz/a/?id=5", HOST, "http://x.cz/a/b", "http://x.cz/c"),
    ("http://x.cz/jan.novak", HOST, "http://x.cz/jan.novak/cv.html", "http://x.cz/"),
    ("http://x.cz/jan.novak", HOST, "http://x.cz/Jan.Novak?lang=cs", "http://x.cz/jan.novakova"),
    ("http://x.cz/jan.novak?lang=cs", HOST, "http://x.cz/jan.novak/cv.html", "http://x.cz/"),
    ("http://x.cz/a/report.pdf", HOST, "http://x.cz/a/report.pdf", "http://x.cz/a/other.pdf"),
    ("http://x.cz/jan.novak", EXACT, "http://x.cz/jan.novak/cv.html", "http://x.cz/"),
    ("http://x.cz/a/Index.PHP3;sid=1", HOST, "http://x.cz/a/other.html", "http://x.cz/b"),
    ("http://x.cz/a/index.html", EXACT, "http://x.cz/a/index.html?x=1", "http://x.cz/a/other.html"),
    ("http://x.cz/v.php?id=5", EXACT, "http://x.cz/v.php?id=5", "http://x.cz/v.php?id=51"),
    ("http://www.cz/", DOMAIN, "http://www.cz/a", "http://x.cz/"),
    ("http://192.0.2.1/", HOST, "http://192.0.2.1/a", "http://192.0.2.10/a"),
    ("ftp://user@x.cz/a*b/", HOST, "http://x.cz/a*b/c", "http://x.cz/ab"),
    ("x.cz/@user", HOST, "http://x.cz/@user/1", "http://x.cz/"),
    ("http://čajovna.cz/", HOST, "http://xn--ajovna-h2a.cz/a", "http://cajovna.cz/"),
]


@pytest.mark.parametrize(("seed", "rules", "inside", "outside"), CASES)
def test_a_seed_covers_the_urls_below_it(seed: str, rules: RangeRules, inside: str, outside: str) -> None:
    ranges = ranges_of(seed, rules, NUMBERED)
    assert contains(ranges, url_key(inside, NUMBERED))
    assert not contains(ranges, url_key(outside, NUMBERED))


LONG = f"http://x.cz/{'a' * 1300}"


@pytest.mark.parametrize("seed", ["", "urn:isbn:1", "localhost", "about:blank", "http://", "not a url", LONG])
def test_a_seed_without_host_or_with_too_long_a_key_covers_nothing(seed: str) -> None:
    assert ranges_of(seed, HOST, NUMBERED) == []


@pytest.mark.parametrize(
    "seed",
    ["*.y.cz", "http://*.y.cz/", "http://y.cz/aa*", "http://y.cz/*/", "y.cz/*", "http://y.cz/?a=*",
     "mailto:webmaster@y.cz", "webmaster@y.cz", "gopher://y.cz/", "http://y.cz/a/ http://x.cz/a/",
     "http://y.cz/a\tb"],
)  # fmt: skip
def test_a_seed_with_a_wildcard_or_that_is_not_a_web_address_covers_nothing(seed: str) -> None:
    assert ranges_of(seed, HOST, NUMBERED) == []


def contains(ranges: list[KeyRange], key: str) -> bool:
    return any(low <= key < high for low, high in ranges)


def claim(url: str, title_id: int, *, out: bool = False) -> list[Claim]:
    return [Claim(found, title_id, out) for found in ranges_of(url, HOST, NUMBERED)]


def owner(segments: list[Segment], url: str) -> int | None:
    found = [each for each in segments if each.range.low <= url_key(url, NUMBERED) < each.range.high]
    assert len(found) <= 1
    return found[0].title_id if found and not found[0].is_carve_out else None


def test_the_narrowest_range_applies_and_a_carve_out_has_no_owner() -> None:
    segments, conflicts = divide(
        [
            *claim("http://x.cz/", 1),
            *claim("http://x.cz/blog/", 2),
            *claim("http://x.cz/blog/shop/", 2, out=True),
            *claim("http://x.cz/blog/shop/open/", 3),
        ]
    )
    assert not conflicts
    assert owner(segments, "http://x.cz/") == 1
    assert owner(segments, "http://x.cz/blog/a") == 2
    assert owner(segments, "http://x.cz/blog/shop/a") is None
    assert owner(segments, "http://x.cz/blog/shop/open/a") == 3
    assert owner(segments, "http://x.cz/z") == 1


def test_a_range_claimed_by_two_titles_is_reported_and_belongs_to_the_lower_id() -> None:
    segments, conflicts = divide([*claim("http://x.cz/", 7), *claim("https://www.x.cz", 5)])
    assert [(one.kept, one.refused) for one in conflicts] == [(5, 7)]
    assert owner(segments, "http://x.cz/a") == 5


def test_a_carve_out_has_precedence_over_a_title_with_the_same_range() -> None:
    segments, conflicts = divide([*claim("http://x.cz/a/", 1), *claim("http://x.cz/a/", 2, out=True)])
    assert conflicts == []
    assert all(segment.is_carve_out for segment in segments)


HOSTS = st.sampled_from(["a", "b.a", "ab"])
PATHS = st.lists(st.sampled_from(["a", "a!", "a.html"]), max_size=3).map("/".join)
"""The range of `/a` ends where that of `/a!` begins."""
URLS = st.builds(lambda host, path: f"http://{host}.cz/{path}", HOSTS, PATHS)


SEEDS = st.lists(st.tuples(URLS, st.integers(1, 4), st.booleans()), max_size=12)
LISTS = st.lists(st.tuples(URLS, st.sampled_from([Access.READING_ROOM, Access.WITHHELD])), max_size=4)


@given(SEEDS, LISTS, st.lists(URLS, max_size=12))
def test_each_key_has_the_narrowest_claim_and_the_strictest_rule_of_lists(
    seeds: list[tuple[str, int, bool]], lists: list[tuple[str, Access]], urls: list[str]
) -> None:
    claims = [one for url, title_id, out in seeds for one in claim(url, title_id, out=out)]
    listed = [ListedRange(one, access) for url, access in lists for one in ranges_of_address(url, NUMBERED)]
    segments, _ = divide(claims, listed)
    assert segments == sorted(segments)
    for before, after in itertools.pairwise(segments):
        assert before.range.high <= after.range.low
    for url in urls:
        key = url_key(url, NUMBERED)
        covering = [one for one in claims if one.range.low <= key < one.range.high]
        # Ranges that contain a key are nested, so that the narrowest begins last.
        narrowest = sorted(
            covering,
            key=lambda one: (
                one.range.low,
                [-ord(c) for c in one.range.high],
                one.is_carve_out,
                -one.title_id,
            ),
        )
        expected = None if not narrowest or narrowest[-1].is_carve_out else narrowest[-1].title_id
        assert owner(segments, url) == expected
        strictest = strictest_access(*(one.access for one in listed if one.range.low <= key < one.range.high))
        assert strictest == next(
            (one.listed for one in segments if one.range.low <= key < one.range.high), None
        )


Claimed = set[tuple[str, int, bool] | tuple[str, Access]]
"""A seed with its title and whether it is carved out, or an address of a list with its rule."""
Pieces = list[tuple[KeyRange, tuple[object, ...]]]


def divided(claimed: Claimed, rules: RangeRules, spans: list[KeyRange] | None = None) -> Pieces:
    """Return the pieces with their owners and rules, only those that overlap the spans."""
    claims, listed = [], []
    for one in claimed:
        for found in claimed_ranges(one, rules):
            if spans is not None and not meets(found, spans):
                continue
            if isinstance(one[1], Access):
                listed.append(ListedRange(found, one[1]))
            else:
                claims.append(Claim(found, one[1], one[-1] is True))
    return [(piece.range, (*piece[1:],)) for piece in divide(claims, listed)[0]]


def claimed_ranges(one: tuple[object, ...], rules: RangeRules) -> list[KeyRange]:
    url = str(one[0])
    found = ranges_of_address(url, NUMBERED) if len(one) == 2 else ranges_of(url, rules, NUMBERED)
    low, high = widest_range(url, NUMBERED)
    assert all(low <= each.low and each.high <= high for each in found)
    return found


@given(SEEDS, LISTS, SEEDS, LISTS, st.randoms(use_true_random=False), st.sampled_from([HOST, DOMAIN, EXACT]))
def test_dividing_around_a_change_equals_dividing_everything(
    seeds: list[tuple[str, int, bool]],
    lists: list[tuple[str, Access]],
    new_seeds: list[tuple[str, int, bool]],
    new_lists: list[tuple[str, Access]],
    chance: random.Random,
    rules: RangeRules,
) -> None:
    before: Claimed = {*seeds, *lists}
    gone = {one for one in before if chance.random() < 0.3}
    after = before - gone | set(new_seeds[:3]) | set(new_lists[:1])
    spans = merged(found for one in before ^ after for found in claimed_ranges(one, rules))
    for span, following in itertools.pairwise(spans):
        assert span.high < following.low
    stored = divided(before, rules)
    near = [
        piece
        for piece in stored
        if any(piece[0].low <= span.high and span.low <= piece[0].high for span in spans)
    ]
    untouched = [piece for piece in stored if piece not in near]
    around = replaced(near, divided(after, rules, spans), spans)
    assert sorted([*untouched, *around], key=lambda piece: piece[0]) == divided(after, rules)
