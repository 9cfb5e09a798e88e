"""Which captures are restored: scopes, sets of hosts, and the nearest capture of each URL."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.restoring.addresses import host_set_spec, read_scope
from harvester.restoring.captures import Capture, CaptureChoice
from oai.errors import UsageError
from provider.holdings.sets import domain_set_specs
from tests.harvester.restoring.listed import capture


def _on(day: int, **facts: object) -> Capture:
    return capture(captured=datetime(2007, 11, day, tzinfo=UTC), key=f"{day:032x}", **facts)


@pytest.mark.parametrize(("at", "day"), [(None, 20), (1, 2), (10, 9), (15, 20), (30, 20)])
def test_the_nearest_capture_of_each_url_is_chosen_or_the_latest(at: int | None, day: int) -> None:
    choice = CaptureChoice(None if at is None else datetime(2007, 11, at, tzinfo=UTC))
    for day_seen in (9, 20, 2):
        choice.see(_on(day_seen))
    assert [one.captured.day for one in choice.chosen()] == [day]


def test_an_error_page_is_chosen_only_if_there_is_no_other_capture() -> None:
    choice = CaptureChoice(datetime(2007, 11, 9, tzinfo=UTC))
    for seen in (_on(9, status=404), _on(20), _on(9, url="http://h.example/x", status=500)):
        choice.see(seen)
    assert [(one.url, one.status) for one in choice.chosen()] == [
        ("http://h.example/", 200),
        ("http://h.example/x", 500),
    ]


@pytest.mark.parametrize(
    ("asked", "set_spec", "held", "other"),
    [
        ("collection:serials", "collection:serials", "ftp://anything/", None),
        ("http://h.example/", "domain:example:h", "https://www.h.example/x", "http://sub.h.example/"),
        ("h.example/news*", "domain:example:h", "http://h.example/news/1", "http://h.example/"),
        (
            "https://www.h.example/a b/",
            "domain:example:h:www",
            "http://www.h.example/a%20b/c",
            "http://h.example/a b/",
        ),
        ("http://h.example:8080/", "domain:example:h", "http://h.example:8080/x", "http://h.example/x"),
        (
            "http://[2001:db8::1]/",
            "domain:~ip:2001!3Adb8!3A!3A1",
            "http://[2001:db8::1]/x",
            "http://h.example/",
        ),
    ],
)
def test_a_scope_is_a_set_or_everything_below_a_url(
    asked: str, set_spec: str, held: str, other: str | None
) -> None:
    scope = read_scope(asked)
    assert scope.set_spec == set_spec
    assert scope.holds(held)
    assert other is None or not scope.holds(other)


def test_a_url_without_a_host_is_not_a_scope() -> None:
    with pytest.raises(UsageError, match="not a setSpec or a URL"):
        read_scope("http:///x")


@settings(deadline=None)
@given(
    st.one_of(
        st.from_regex(r"[a-z0-9_-]{1,8}(\.[a-z0-9*_-]{1,8}){0,4}", fullmatch=True),
        st.ip_addresses().map(str),
        st.sampled_from(["a..b", "xn--hdkovna-1ob.cz", "h!x.example"]),
    )
)
def test_the_set_of_a_host_is_spelt_as_the_provider_spells_it(host: str) -> None:
    assert host_set_spec(host) == domain_set_specs(host)[-1][0]
