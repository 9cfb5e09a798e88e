"""Reading the index."""

from pathlib import Path

import pytest

from oai.database import Database
from oai.errors import UsageError
from provider.holdings import index_reads
from provider.holdings.index_reads import ReadOrder, leader
from provider.holdings.lookup import MatchType, Query, find_captures
from provider.holdings.urlkeys import WwwRule
from tests.provider.holdings.staff import index


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("a.cz", "a.cz"),
        ("www.a.cz", "a.cz"),
        ("www.www.a.cz", "www.www.a.cz"),
        ("www.www.zoo.cz", "www.www.zoo.cz"),
    ],
)
def test_www_is_removed_from_a_host_unless_the_rest_begins_with_www(host: str, expected: str) -> None:
    assert leader(host, WwwRule.NUMBERED) == expected


@pytest.mark.parametrize("order", [ReadOrder.REVERSE, ReadOrder.CLOSEST])
@pytest.mark.parametrize("match", [MatchType.PREFIX, MatchType.HOST, MatchType.DOMAIN])
def test_other_orders_need_a_single_url(database: Database, match: MatchType, order: ReadOrder) -> None:
    query = Query(url="http://a.cz/", match=match, order=order, limit=1)
    with database.session() as session, pytest.raises(UsageError, match="needs a single URL"):
        find_captures(session, query)


def test_the_hosts_of_a_domain_are_read_in_pages(database: Database, tmp_path: Path) -> None:
    index(database, tmp_path, ["a.example.cz", "b.example.cz", "c.example.cz", "example.cz", "other.cz"])
    with database.session() as session:
        groups = list(index_reads.of_domain(session, "http://example.cz/", WwwRule.NUMBERED, at_once=1))
    assert [group.documents for group in groups] == [4, 1, 1, 1]  # the documents of a host's domain
