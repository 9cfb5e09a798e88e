"""All parts of the index treat `www.` by the stored rule, which cannot change while there are keys."""

from pathlib import Path

import pytest
from sqlalchemy import delete, select, text

from oai.database import Database
from oai.errors import ExitCode, SettingsError, UsageError
from provider.holdings.lookup import MatchType, Query, find_captures
from provider.holdings.takedowns import TakedownRequest, enter, settle_takedown
from provider.holdings.url_key_state import settle_rule, www_rule
from provider.holdings.urlkeys import WwwRule, hosts_alike, url_key
from provider.indexing.indexer import Indexer, IndexOptions, index_file
from provider.models import Document, TakedownRange
from provider.titles.models import TitleSegment
from tests.commands import zatva
from tests.provider.archives import Page, write_pages
from tests.provider.titles.conftest import Titles, entry

BARE, WWW, WWW2 = "http://a.example/x", "http://www.a.example/x", "http://www2.a.example/x"


def begin(database: Database, rule: WwwRule) -> None:
    with database.session() as session:
        settle_rule(session, rule)


def index(database: Database, folder: Path, *urls: str) -> None:
    path = write_pages(folder / "x.warc.gz", [Page(url=url) for url in urls])
    report = index_file(database, path, IndexOptions(margin=1))
    assert not report.merged.problems


def found(database: Database, url: str, match: MatchType = MatchType.EXACT) -> set[str]:
    with database.session() as session:
        return {one.url for one in find_captures(session, Query(url=url, match=match, limit=10)).found}


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        (WwwRule.NUMBERED, ["example,a)/x", "example,a)/x", "example,a)/x"]),
        (WwwRule.PLAIN, ["example,a)/x", "example,a)/x", "example,a,www2)/x"]),
        (WwwRule.KEPT, ["example,a)/x", "example,a,www)/x", "example,a,www2)/x"]),
    ],
)
def test_the_www_rule_determines_which_prefix_a_key_omits(rule: WwwRule, keys: list[str]) -> None:
    assert [url_key(url, rule) for url in (BARE, WWW, WWW2)] == keys


@pytest.mark.parametrize(
    ("rule", "host", "alike"),
    [
        (WwwRule.NUMBERED, "www2.a.example", ["www2.a.example", "a.example", "www.a.example"]),
        (WwwRule.PLAIN, "www2.a.example", ["www2.a.example", "www.www2.a.example"]),
        (WwwRule.PLAIN, "www.a.example", ["www.a.example", "a.example"]),
        (WwwRule.KEPT, "www.a.example", ["www.a.example"]),
        (WwwRule.NUMBERED, "www.com", ["www.com", "www.www.com"]),
        (WwwRule.NUMBERED, "192.0.2.1", ["192.0.2.1"]),
    ],
)
def test_equivalent_hosts_depend_on_the_www_rule(rule: WwwRule, host: str, alike: list[str]) -> None:
    assert hosts_alike(host, rule) == alike


@pytest.mark.parametrize("keyed", [True, False])
def test_a_look_up_applies_the_www_rule(database: Database, tmp_path: Path, *, keyed: bool) -> None:
    begin(database, WwwRule.PLAIN)
    index(database, tmp_path, BARE, WWW, WWW2)
    if not keyed:
        with database.engine.begin() as connection:
            connection.execute(text("UPDATE url_key_fill SET finished = NULL"))
    assert found(database, WWW) == {BARE, WWW}
    assert found(database, WWW2) == {WWW2}
    assert found(database, "a.example", MatchType.HOST) == {BARE, WWW}
    assert found(database, "a.example", MatchType.DOMAIN) == {BARE, WWW, WWW2}


def test_a_takedown_applies_the_www_rule(database: Database, tmp_path: Path) -> None:
    begin(database, WwwRule.KEPT)
    index(database, tmp_path, BARE, WWW)
    with database.session() as session:
        wanted = TakedownRequest(targets=(WWW,), reason="court order", requester="Jan Novák")
        settle_takedown(session, enter(session, wanted), margin=1)
        assert session.scalars(select(Document.url).where(Document.deleted)).all() == [WWW]


def test_a_title_applies_the_www_rule(database: Database, tmp_path: Path) -> None:
    begin(database, WwwRule.PLAIN)
    index(database, tmp_path, BARE, WWW2)
    titles = Titles(database)
    titles.bring(entry("1", "http://www.a.example/"), entry("2", "http://www2.a.example/"))
    assert [titles["1"].captures, titles["2"].captures] == [1, 1]


def test_the_www_rule_cannot_be_changed_while_there_are_keys(database: Database, tmp_path: Path) -> None:
    index(database, tmp_path, WWW2)
    with pytest.raises(SettingsError, match="'plain', but this index has URL keys by the rule 'numbered'"):
        begin(database, WwwRule.PLAIN)
    Titles(database).bring(entry("1", "http://a.example/"))
    with database.session() as session:
        enter(session, TakedownRequest(targets=(WWW,), reason="court order", requester="Jan Novák"))
    for table in (Document, TakedownRange):
        with database.engine.begin() as connection:
            connection.execute(delete(table))
        with pytest.raises(SettingsError):
            begin(database, WwwRule.PLAIN)
    with database.engine.begin() as connection:
        connection.execute(delete(TitleSegment))
    begin(database, WwwRule.PLAIN)
    with database.session() as session:
        assert www_rule(session) is WwwRule.PLAIN


def test_a_file_is_not_published_if_the_www_rule_changed_while_it_was_read(
    database: Database, tmp_path: Path
) -> None:
    path = write_pages(tmp_path / "x.warc.gz", [Page(url=WWW2)])

    def change(_read: int) -> None:
        begin(database, WwwRule.PLAIN)

    with Indexer(database, IndexOptions(margin=1)) as indexer:
        (problem,) = indexer.index(path, change).merged.problems
        assert "the rule of URL keys has changed meanwhile; index the file again" in problem.reason
        assert not indexer.index(path).merged.problems
    assert found(database, BARE) == set()


def test_commands_refuse_a_setting_that_differs_from_the_stored_www_rule(
    database: Database, tmp_path: Path, environment: dict[str, str]
) -> None:
    index(database, tmp_path, WWW2)
    other = {**environment, "ZATVA_PROVIDER__WWW_RULE": "kept"}
    for words in (
        ("provider", "index", tmp_path),
        ("serve", "--port", "0", "--web-port", "0"),
        ("web", "serve", "--port", "0"),
        ("provider", "takedown", "add", WWW, "--reason", "r", "--requester", "r"),
    ):
        refused = zatva(other, *words)
        assert "provider.www_rule is 'kept'" in refused.stderr
        assert refused.returncode == ExitCode.NOT_READY


def test_a_takedown_without_a_host_is_refused(database: Database) -> None:
    begin(database, WwwRule.KEPT)
    with database.session() as session, pytest.raises(UsageError, match="not addresses with a host"):
        enter(session, TakedownRequest(targets=("/x",), reason="r", requester="r"))
