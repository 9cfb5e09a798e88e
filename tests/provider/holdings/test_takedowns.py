"""A take-down hides present and later documents; ending it shows those that nothing else hides."""

import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, text, update

from oai.database import Database
from oai.datestamps import utc_now
from oai.errors import InterruptedRunError, UsageError
from provider.clients.models import ProviderClient, ProviderList
from provider.holdings.access import refresh
from provider.holdings.selection import Selection, hide, unhide
from provider.holdings.takedowns import (
    TakedownRequest,
    enter,
    find_takedown,
    hold_register,
    holding,
    lift,
    list_takedowns,
    preview,
    ranges_of,
    settle_takedown,
    settle_takedowns,
)
from provider.holdings.urlkeys import WwwRule
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import UNLISTED, Document, Domain, Takedown
from tests.provider.archives import Page, warc_record, write_archive, write_pages

HERE = (
    "http://www.a.example/blog/1",
    "https://a.example/Blog/2",
    "http://a.example/about",
    "http://img.a.example/logo",
    "http://ba.example/blog/1",
)


@pytest.fixture
def archive(database: Database, tmp_path: Path) -> Path:
    """Pages of three hosts, one of which is a subdomain of another."""
    _index(database, tmp_path / "x.warc.gz", *HERE)
    return tmp_path


def _index(database: Database, path: Path, *urls: str) -> None:
    write_pages(path, [Page(url=url) for url in urls])
    index_file(database, path, IndexOptions(margin=1))


def _take_down(database: Database, *targets: str, expires: datetime | None = None) -> int:
    with database.session() as session:
        wanted = TakedownRequest(
            targets=targets, reason="court order", requester="Jan Novák", expires=expires
        )
        number = enter(session, wanted)
        settle_takedown(session, number, margin=1)
    return number


def _hidden(database: Database) -> set[str]:
    with database.session() as session:
        return {one.url for one in session.scalars(select(Document).where(Document.deleted))}


@pytest.mark.parametrize(
    ("targets", "covered"),
    [
        (["a.example/blog*"], {0, 1}),
        (["HTTPS://WWW.A.EXAMPLE/blog/1"], {0}),
        (["*.a.example"], {0, 1, 2, 3}),
        (["http://a.example/about", "ba.example/*"], {2, 4}),
        (["a.example/blo*", "a.example/blog/*"], {0, 1}),
    ],
)
@pytest.mark.usefixtures("archive")
def test_documents_are_taken_down_by_any_spelling_of_their_urls(
    database: Database, targets: list[str], covered: set[int]
) -> None:
    with database.session() as session:
        assert preview(session, targets).documents == len(covered)
    number = _take_down(database, *targets)
    assert _hidden(database) == {HERE[one] for one in covered}
    with database.session() as session:
        assert session.get_one(Takedown, number).documents == len(covered)


def test_no_break_space_at_the_end_of_a_target_may_belong_to_the_url(
    database: Database, tmp_path: Path
) -> None:
    plain, spaced = "http://a.example/last", "http://a.example/last\u00a0"
    _index(database, tmp_path / "y.warc.gz", plain, spaced, "http://a.example/last/1")
    with database.session() as session:
        assert preview(session, [f" {spaced}\r\n"]).documents == 2
        assert preview(session, ["a.example/last*\u00a0"]).documents == 3
    _take_down(database, f" {spaced}")
    assert _hidden(database) == {plain, spaced}


@pytest.mark.parametrize("target", ["http://www.a.example/blog/*", "a.example/blog//*"])
def test_a_prefix_that_is_a_directory_covers_its_front_page(
    database: Database, tmp_path: Path, target: str
) -> None:
    start = "http://a.example/blog"
    covered = {start, f"{start}/", f"{start}/?page=2", f"{start}?a=1", f"{start}/1"}
    _index(database, tmp_path / "y.warc.gz", *covered, f"{start}s/", f"{start}.html", "http://a.example/")
    with database.session() as session:
        assert preview(session, [target]).documents == len(covered)
    _take_down(database, target)
    assert _hidden(database) == covered


def test_a_directory_prefix_that_ends_in_a_parenthesis_covers_its_front_page() -> None:
    found = ranges_of(["a.example/(1)/*"], WwwRule.NUMBERED)
    assert ("example,a)/(1)", "example,a)/(1)") in found


@pytest.mark.parametrize(
    "target", ["a.example/x?b=1*", "a.example/x%3Fb=1*", f"a.example/x?sid={'a' * 32}*", "a.example/?b*"]
)
def test_a_prefix_with_arguments_is_refused_because_keys_sort_them(target: str) -> None:
    with pytest.raises(UsageError, match=r"sorts the arguments .*2: "):
        ranges_of(["a.example/x?*", target], WwwRule.NUMBERED)


@pytest.mark.parametrize(("prefix", "key"), [("x/?", "x"), ("x%3F", "x"), ("?", "")])
def test_a_prefix_that_ends_in_the_question_mark_covers_all_arguments(prefix: str, key: str) -> None:
    """A session id is not part of the key; only the exact key covers a URL without other arguments."""
    found = ranges_of([f"a.example/{prefix}*"], WwwRule.NUMBERED)
    start = f"example,a)/{key}"
    assert found == [(start, start), (f"{start}?", f"{start}?\U0010ffff")]


def test_a_prefix_that_ends_in_the_question_mark_covers_session_ids(
    database: Database, tmp_path: Path
) -> None:
    page = "http://a.example/page"
    covered = {f"{page}?PHPSESSID={'a' * 32}", f"{page}?sid={'b' * 32}", f"{page}?", f"{page}?id=1"}
    _index(database, tmp_path / "y.warc.gz", *covered, f"{page}s", f"{page}/1")
    _take_down(database, f"{page}?*")
    assert _hidden(database) == covered


@pytest.mark.parametrize(
    "target", ["a.example/latin%E8/%c4%8d", "a.example/latin%e8*", "a.example/latin%E8/%C4%8D?*"]
)
def test_escapes_that_are_not_utf_8_also_match_raw_bytes_in_archived_urls(
    database: Database, tmp_path: Path, target: str
) -> None:
    """A URL with such bytes is stored as Latin-1, so that its key has the escapes of these characters."""
    record = warc_record(Page(url="http://a.example/latinRAW")).replace(b"RAW", b"\xe8/\xc4\x8d")
    records = [
        record,
        *(warc_record(Page(url=f"http://a.example/latin{end}")) for end in ("%E8/%C4%8D", "e")),
    ]
    index_file(database, write_archive(tmp_path / "y.warc", records), IndexOptions(margin=1))
    _take_down(database, target)
    assert len(_hidden(database)) == 2


@pytest.mark.parametrize(
    "end", ["#!/user/jan", "x#comments", "x?#a", "x/.", "x/..", "x/%2e%2E", "x/../.", "%C4%8", "%C4%", "x?%"]
)
def test_a_prefix_that_ends_in_parts_removed_from_keys_is_refused(end: str) -> None:
    """It would cover other URLs: the whole host for `/#…`, or none for a part of an escape."""
    good = ["a.example/.well*", "a.example/...*", "a.example/x/../y*", "a.example/%C4*", "a.example/.?*"]
    assert ranges_of([*good, "a.example/#top", "a.example/x/.."], WwwRule.NUMBERED)
    with pytest.raises(UsageError, match=r"which the index does not have.* 6: "):
        ranges_of([*good, f"a.example/{end}*"], WwwRule.NUMBERED)


@pytest.mark.parametrize(
    ("target", "covered"),
    [
        ("http://[2001:db8::7]/v6", {"http://[2001:db8::7]/v6"}),
        ("[2001:db8::7]/*", {"http://[2001:db8::7]/v6"}),
        ("http://localhost/intranet", {"http://localhost/intranet"}),
        ("localhost/*", {"http://localhost/intranet"}),
        ("www.cz", {"http://www.cz/"}),
    ],
)
def test_documents_of_hosts_with_one_label_and_of_ipv6_addresses_are_taken_down(
    database: Database, tmp_path: Path, target: str, covered: set[str]
) -> None:
    urls = ("http://[2001:db8::7]/v6", "http://localhost/intranet", "http://www.cz/")
    _index(database, tmp_path / "y.warc.gz", *urls)
    _take_down(database, target)
    assert _hidden(database) == covered


@pytest.mark.parametrize(
    "target", ["http://a.example:8080/x?back=http://b.example/", "http://a.example:8080/*"]
)
def test_a_host_with_a_port_may_be_written_without_scheme(target: str) -> None:
    without = target.removeprefix("http://")
    assert ranges_of([without], WwwRule.NUMBERED) == ranges_of([target], WwwRule.NUMBERED)


@pytest.mark.parametrize("target", ["", "cz", "cz*", "no host", "*", "a.*", "http://", "x" * 5000 + ".cz"])
def test_invalid_and_too_general_targets_are_refused_with_the_line_number(target: str) -> None:
    with pytest.raises(UsageError, match=r"2: "):
        ranges_of(["a.example/", target], WwwRule.NUMBERED)


@pytest.mark.parametrize("target", ["*.cz", "*.www.cz", "*.localhost/", "*.[2001:db8::7]"])
def test_a_wildcard_for_all_hosts_of_a_top_level_domain_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match=r"2: "):
        ranges_of(["a.example/", target], WwwRule.NUMBERED)


@pytest.mark.usefixtures("archive")
def test_a_url_longer_than_the_indexed_part_of_its_key_is_refused(database: Database, tmp_path: Path) -> None:
    start = "http://long.example/"
    longest = "p" * (2047 - len("example,long)/"))
    _index(database, tmp_path / "y.warc.gz", *(start + longest + end for end in ("", "p", "pa", "pb")))
    for target in (longest + "p", longest + "pa", longest + "pa*", "p" * 4000 + "*"):
        with database.session() as session, pytest.raises(UsageError, match="a shorter prefix"):
            preview(session, [start + target])
    _take_down(database, start + longest)
    assert _hidden(database) == {start + longest}
    _take_down(database, start + longest + "p*")
    assert len(_hidden(database)) == 4


@pytest.mark.parametrize(
    ("alphabet", "length"),
    [(range(0x61, 0x7B), 2000), (range(0x4E00, 0x9FFF), 220)],
    ids=["ascii", "chinese"],
)
def test_long_urls_are_taken_down_exactly_and_as_prefixes(
    database: Database, tmp_path: Path, alphabet: range, length: int
) -> None:
    """The characters are random, because PostgreSQL compresses other text before it measures it."""
    path = "".join(map(chr, random.Random(1).choices(alphabet, k=length)))
    urls = [f"http://long.example/{path}", f"http://long.example/{path}/1"]
    _index(database, tmp_path / "y.warc.gz", *urls)
    _take_down(database, urls[0])
    assert _hidden(database) == {urls[0]}
    _take_down(database, f"{urls[0]}/*", f"{urls[0]}*")
    assert _hidden(database) == set(urls)


def test_a_takedown_requires_a_reason_a_requester_and_a_future_end(database: Database) -> None:
    good = TakedownRequest(targets=("a.example/*",), reason="r", requester="q")
    past = datetime(2001, 1, 1, tzinfo=UTC)
    for bad in (replace(good, reason=" "), replace(good, requester=""), replace(good, expires=past)):
        with database.session() as session, pytest.raises(UsageError):
            enter(session, bad)
    with database.session() as session:
        assert list_takedowns(session, limit=5) == []


def test_the_register_is_searched_without_accents(database: Database) -> None:
    number = _take_down(database, "a.example/*")
    with database.session() as session:
        found = {
            words: list_takedowns(session, limit=5, words=words) for words in ("novak", "NOVÁK", "n_vak")
        }
        assert {words: [one.takedown_id for one in rows] for words, rows in found.items()} == {
            "novak": [number], "NOVÁK": [number], "n_vak": [],
        }  # fmt: skip


def test_documents_indexed_after_a_takedown_are_hidden_and_unlisted(
    database: Database, archive: Path
) -> None:
    number = _take_down(database, "b.example/secret*")
    _index(database, archive / "y.warc.gz", "http://b.example/secret/1", "http://b.example/open")
    with database.session() as session:
        held = session.scalars(select(Document).where(Document.url.contains("secret"))).one()
        assert (held.deleted, held.datestamp) == (True, UNLISTED)
        counts = select(Domain.documents, Domain.unlisted).where(Domain.name == "b.example")
        assert session.execute(counts).one() == (2, 1)

        lift(session, number, "the court decided otherwise")
        settle_takedown(session, number, margin=1)
        session.expire_all()
        assert (held.deleted, held.datestamp < UNLISTED) == (False, True)
        assert session.execute(counts).one() == (2, 0)


@pytest.mark.usefixtures("archive")
def test_documents_hidden_for_another_reason_stay_hidden_when_a_takedown_ends(database: Database) -> None:
    with database.session() as session:
        hide(session, Selection(url=HERE[2]), margin=1)
    site, blog = _take_down(database, "*.a.example"), _take_down(database, "a.example/blog*")
    with database.session() as session:
        assert unhide(session, Selection(url=HERE[0]), margin=1) == 0
        key = session.scalars(select(Document.id).where(Document.url == HERE[0])).one()
        assert holding(session, key) == [site, blog]
        lift(session, site, "narrowed")
        assert settle_takedown(session, site, margin=1) == 1
        with pytest.raises(UsageError, match="already ended"):
            lift(session, site, "again")
    assert _hidden(database) == {HERE[0], HERE[1], HERE[2]}


@pytest.mark.usefixtures("archive")
def test_a_takedown_ends_at_its_expiry_date(database: Database) -> None:
    number = _take_down(database, "*.a.example", expires=utc_now() + timedelta(days=1))
    with database.session() as session:
        assert refresh(session, margin=1) == 0
        session.execute(update(Takedown).values(expires=func.now()))
        session.commit()
        assert refresh(session, margin=1) == 4
        row = session.get_one(Takedown, number)
        assert (row.lifted is not None, row.lifted_because, row.unsettled) == (True, None, None)
    assert _hidden(database) == set()


@pytest.mark.usefixtures("archive")
def test_an_interrupted_takedown_is_completed(database: Database) -> None:
    steps = iter([None, None])

    def check() -> None:
        if next(steps, InterruptedRunError) is not None:
            raise InterruptedRunError("ending")

    with database.session() as session:
        number = enter(session, TakedownRequest(targets=("*.a.example",), reason="r", requester="q"))
        with pytest.raises(InterruptedRunError):
            settle_takedown(session, number, margin=1, check=check, chunk=1)
        assert len(_hidden(database)) == 2
        assert settle_takedowns(session, margin=1) == 2
        assert settle_takedowns(session, margin=1) == 0


@pytest.mark.usefixtures("archive")
def test_the_preview_names_harvesters_that_may_have_the_documents(database: Database) -> None:
    with database.session() as session:
        published = session.scalars(select(func.max(Document.datestamp))).one()
        for number, later in enumerate((-1, 1, 2)):
            key = session.scalars(text("SELECT gen_random_uuid()").columns(Document.key)).one()
            at = published + timedelta(hours=later)
            session.add(
                ProviderClient(
                    key=key, address=f"192.0.2.{number}", user_agent="x", sender="", first_request=at,
                    last_request=at, requests=1, bytes_sent=1, refused=0,
                )
            )  # fmt: skip
            session.flush()
            session.add(
                ProviderList(
                    key=key, client_key=key, verb="ListRecords", metadata_prefix="oai_dc", set_spec="",
                    started=at, last_request=at, requests=1, passed=number,
                )
            )  # fmt: skip
        session.commit()
        found = preview(session, ["a.example/*"])
    assert (found.documents, found.more, found.hidden, found.harvesters) == (3, False, 0, 2)
    assert [url for url, _time in found.examples] == sorted([HERE[0], HERE[1], HERE[2]])


@pytest.mark.parametrize("second", ["a person", "its end"])
@pytest.mark.usefixtures("archive")
def test_if_a_takedown_is_ended_twice_at_once_the_first_end_is_stored(
    database: Database, second: str
) -> None:
    number = _take_down(database, "http://a.example/about", expires=utc_now() + timedelta(hours=1))

    def lift_it() -> str:
        with database.session() as session:
            lift(session, number, "an agreement")
        return ""

    def end_it() -> str:
        with database.session() as session, contextlib.suppress(UsageError):
            if second == "a person":
                lift(session, number, "a second thought")
                return "ended twice"
            settle_takedowns(session, margin=1)
        return ""

    with database.session() as indexing, ThreadPoolExecutor(2) as pool:
        hold_register(indexing)
        both = [pool.submit(lift_it)]
        _wait_for_lock(database, 1)
        with database.session() as session:
            session.execute(update(Takedown).values(expires=utc_now()))
            session.commit()
        both.append(pool.submit(end_it))
        _wait_for_lock(database, 2)
        indexing.rollback()
        assert [one.result(timeout=30) for one in both] == ["", ""]

    with database.session() as session:
        assert find_takedown(session, number).lifted_because == "an agreement"


def _wait_for_lock(database: Database, waiting: int) -> None:
    """Wait until this number of transactions wait for an advisory lock."""
    count = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    with database.session() as session:
        while session.scalars(count).one() < waiting:
            time.sleep(0.05)
