"""Titles from Seeder's database: the meaning of each row, and errors of reading."""

import os
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL

from oai.errors import Phrase, RemoteError, UsageError
from provider.titles.entries import (
    AddressList,
    CollectionEntry,
    NotDescribed,
    Read,
    Refused,
    Remark,
    Seed,
    SubjectGroup,
    TitleEntry,
)
from provider.titles.models import SeedKind
from provider.titles.seeder import StateRules, read_seeder
from provider.titles.seeder_rows import COLUMNS, NUMBER_COLUMNS, SEED_COLUMNS, TEXT_COLUMNS
from tests.conftest import conninfo
from tests.provider.archive import Archive
from tests.provider.titles.conftest import Titles
from tests.provider.titles.seeder_tables import Seeder

SITE = "http://www.example.cz/"
PUBLIC = ("success",)
STATE_RULES = StateRules()
MANY = 600
"""Sources that do not fit into one batch of rows."""
GUIDE = Path(__file__).parents[3] / "docs/how-to/titles.md"


@pytest.fixture(scope="module")
def seeder_server(maintenance: psycopg.Connection, server_url: URL) -> Iterator[Seeder]:
    """A database without tables, which the tests of this module share."""
    name = f"seeder_{os.getpid()}"
    maintenance.execute(f"CREATE DATABASE {name}")
    url = server_url.set(database=name)
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        yield Seeder(connection, conninfo(url.update_query_dict({"options": "-csearch_path=seeder"})))
    maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def seeder(seeder_server: Seeder) -> Iterator[Seeder]:
    seeder_server.create()
    yield seeder_server
    seeder_server.drop()


def read(seeder: Seeder, public: Sequence[str] = PUBLIC, media: str | None = None) -> list[Read]:
    return list(read_seeder(seeder.address, StateRules(public=public), media_url=media))


def entries(seeder: Seeder) -> list[TitleEntry]:
    return [one for one in read(seeder) if isinstance(one, TitleEntry)]


def remarks(seeder: Seeder, source: int) -> list[str]:
    return [one.words for one in read(seeder) if isinstance(one, Remark) and one.place == str(source)]


def test_a_source_with_all_fields_is_read_as_a_title(seeder: Seeder) -> None:
    category = seeder.add("source_category", name="Music", name_cs="Hudba", name_en="Music")
    seeder.number(category, 9)
    source = seeder.source(
        "success",
        SITE,
        name="Příklad",
        annotation="O příkladech.",
        aleph_id="web20132499695",
        issn="1234-5679",
        category_id=category,
        sub_category_id=seeder.add(
            "source_subcategory", name="Opera", name_en="", category_id=category, subcategory_id="782"
        ),
        publisher_id=seeder.add("publishers_publisher", name="Nakladatelství"),
    )
    seeder.keywords(source, "žesť", "akordeon")
    seeder.contract(source, creative_commons_type="CC BY 4.0", valid_to="2999-12-31")
    seeder.collection(source, title="Volby")
    assert read(seeder) == [
        TitleEntry(
            key=str(source),
            name="Příklad",
            publisher="Nakladatelství",
            annotation="O příkladech.",
            issn="1234-5679",
            catalogue_number="web20132499695",
            subjects=(SubjectGroup(name="Hudba", name_en="Music", number=9, notation="782", part="Opera"),),
            keywords=("akordeon", "žesť"),
            collections=("Volby",),
            state="success",
            access="open",
            licence="CC BY 4.0",
            contract_from=date(2015, 1, 1),
            contract_to=date(2999, 12, 31),
            seeds=(Seed(url=SITE),),
        ),
        CollectionEntry(collection="Volby", position=0),
    ]


def test_a_source_with_required_fields_only_is_read_as_a_title(seeder: Seeder) -> None:
    source = seeder.source("forced", SITE, annotation="", issn="", aleph_id="")
    assert read(seeder) == [
        TitleEntry(
            key=str(source),
            name="A source",
            subjects=(SubjectGroup(name="Hudba"),),
            state="forced",
            access="reading room",
            public=False,
            seeds=(Seed(url=SITE),),
        )
    ]


STATES = {
    "success": "public",
    "forced": "not public",
    "terminated": "not public",
    "expired": "not public",
    "voting": "left out",
    "duplicity": "left out",
    "waiting": "left out",
    "reevaluation": "left out",
    "technical": "left out",
    "communication": "left out",
    "vote_accepted": "left out",
    "vote_declined": "left out",
    "declined": "left out",
    "ignored": "left out",
    "paused": "not understood",
}


def outcome(one: Read) -> str:
    if isinstance(one, TitleEntry):
        return "public" if one.public else "not public"
    assert isinstance(one, Refused)
    return "left out" if one.is_decision else "not understood"


def test_the_state_of_a_source_determines_whether_it_is_a_public_title(seeder: Seeder) -> None:
    for state in STATES:
        seeder.source(state, SITE)
    found = [one for one in read(seeder) if not isinstance(one, Remark)]
    assert dict(zip(STATES, map(outcome, found), strict=True)) == STATES
    reasons = [one.reason for one in found if isinstance(one, Refused)]
    assert reasons[0] == "its state is 'voting', not archived"
    assert reasons[-1].startswith("its state is 'paused'; known are communication, declined, duplicity")
    found = [one for one in read(seeder, ["forced", "expired"]) if isinstance(one, TitleEntry)]
    assert [outcome(one) for one in found] == ["not public", "public", "not public", "public"]


def test_an_inactive_source_is_omitted(seeder: Seeder) -> None:
    source = seeder.source("success", SITE, active=False)
    assert read(seeder) == [Refused(place=str(source), reason="it is not active", is_decision=True)]


def test_a_source_without_a_name_is_refused_and_the_others_are_read(seeder: Seeder) -> None:
    seeder.source("forced", SITE, name=" ")
    seeder.source("forced", SITE, name="B")
    refused, taken = read(seeder)
    assert isinstance(refused, Refused)
    assert refused.reason.startswith("name: ")
    assert not refused.is_decision
    assert isinstance(taken, TitleEntry)


def test_seeds_of_all_kinds_are_read(seeder: Seeder) -> None:
    source = seeder.source("forced", "-http://shop.a.cz/", "~http://old.a.cz/", "http://a.cz/")
    seeder.seed(source, "http://b.cz/", main_seed=True, from_time="2020-02-01", to_time="2021-03-31")
    seeder.seed(source, "http://c.cz/", main_seed=True)
    seeder.seed(source, "http://gone.cz/", active=False)
    (found,) = read(seeder)
    assert isinstance(found, TitleEntry)
    assert found.seeds == (
        Seed(url="http://a.cz/"),
        Seed(
            url="http://b.cz/",
            main=True,
            harvested_from=date(2020, 2, 1),
            harvested_to=date(2021, 3, 31),
        ),
        Seed(url="http://c.cz/"),
        Seed(url="http://old.a.cz/"),
        Seed(url="http://shop.a.cz/", kind=SeedKind.CARVE_OUT),
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"url": " "}, "has no URL and is left out"),
        (
            {"state": "exc", "active": False},
            "its carve-out 'http://www.example.cz/' is not active and is left out",
        ),
        (
            {"from_time": "2021-01-02", "to_time": "2021-01-01"},
            "ends on 2021-01-01, before it begins on 2021-01-02",
        ),
        ({"active": False}, "it has no active seed, and so no captures"),
        ({"state": "exc"}, "it has no active seed, and so no captures"),
    ],
)
def test_doubtful_seeds_are_reported(seeder: Seeder, values: dict[str, Any], words: str) -> None:
    source = seeder.source("forced")
    seeder.seed(source, **{"url": SITE, **values})
    assert words in "; ".join(remarks(seeder, source))
    assert [one.key for one in entries(seeder)] == [str(source)]


def test_a_title_with_a_seed_of_unknown_state_is_refused(seeder: Seeder) -> None:
    seed = seeder.seed(seeder.source(), SITE, state="new")
    (refused,) = read(seeder)
    assert isinstance(refused, Refused)
    assert f"seed {seed} has the state 'new'; known are inc, old, exc" in refused.reason
    assert not refused.is_decision


def test_the_licence_is_that_of_the_newest_valid_contract_with_one(seeder: Seeder) -> None:
    one, other = seeder.source(), seeder.source()
    seeder.contract(one, other, creative_commons_type="CC BY 4.0", created="2020-01-01")
    seeder.contract(one, creative_commons_type="CC BY-SA 4.0", created="2021-01-01")
    seeder.contract(one, creative_commons_type="", created="2022-01-01")
    ended = {"creative_commons_type": "CC0 1.0", "created": "2023-01-01"}
    seeder.contract(one, valid_to="2001-01-01", **ended)
    for state in ("NEGOTIATION", "DECLINED", "EXPIRED"):
        seeder.contract(one, state=state, **ended)
    assert [entry.licence for entry in entries(seeder)] == ["CC BY-SA 4.0", "CC BY 4.0"]


@pytest.mark.parametrize(
    ("contracts", "expected"),
    [
        ([("2015-01-01", "2998-01-01"), ("2014-01-01", "2999-01-01")], ("2014-01-01", "2999-01-01")),
        ([("2015-01-01", None), ("2014-01-01", "2999-01-01")], ("2014-01-01", "None")),
        ([(None, None)], ("None", "None")),
        ([("1999-01-01", "2001-01-01")], ("None", "None")),
    ],
)
def test_contract_dates_span_all_valid_contracts(
    seeder: Seeder, contracts: list[tuple[str | None, str | None]], expected: tuple[str, str]
) -> None:
    source = seeder.source()
    for begin, end in contracts:
        seeder.contract(source, valid_from=begin, valid_to=end)
    (found,) = entries(seeder)
    assert (str(found.contract_from), str(found.contract_to)) == expected


@pytest.mark.parametrize(
    ("state", "contract", "words"),
    [
        ("success", None, "its state is 'success', but it has no valid contract; the state decides"),
        ("success", {"state": "EXPIRED"}, "but it has no valid contract"),
        ("success", {"valid_to": "2001-01-01"}, "but it has no valid contract"),
        ("forced", {"contract_number": 5}, "its state is 'forced', but contract 5/2020 is valid"),
        ("terminated", {"id": 77}, "its state is 'terminated', but contract with id 77 is valid"),
        ("success", {"valid_from": None}, "is valid, but does not say since when"),
        ("success", {"valid_from": "2999-01-02", "valid_to": "2999-01-01"}, "2999-01-01, before it begins"),
        ("success", {}, ""),
        ("forced", {"state": "DECLINED"}, ""),
    ],
)
def test_contracts_that_contradict_the_state_are_reported(
    seeder: Seeder, state: str, contract: dict[str, Any] | None, words: str
) -> None:
    source = seeder.source(state, SITE)
    if contract is not None:
        seeder.contract(source, **contract)
    found = "; ".join(remarks(seeder, source))
    assert words in found
    assert bool(words) == bool(found)


def test_titles_have_the_published_collections_in_their_order(seeder: Seeder) -> None:
    source, other = seeder.source(), seeder.source()
    seeder.collection(source, title="B", order=2, internals=2)
    seeder.collection(source, title="Floods", title_cs="Povodně", order=1)
    seeder.collection(source, title="A", title_cs="", order=3)
    seeder.collection(source, title="Hidden", active=False)
    seeder.collection(other, title="Other")
    seeder.add("harvests_topiccollection", title="of no external one")
    assert [entry.collections for entry in entries(seeder)] == [("Povodně", "B", "A"), ("Other",)]


def test_published_collections_are_described_in_their_order(seeder: Seeder) -> None:
    source = seeder.source()
    seeder.collection(
        source, title="B", order=2, annotation="<p>Old <b>sites</b>.</p><p>Two &amp;\n more<br>x</p>"
    )
    seeder.collection(
        source, title="A", order=1, annotation="no", annotation_cs="<script>x</script>ano", image="a b/č.jpg"
    )
    seeder.collection(source, title="Hidden", active=False, annotation="secret")

    found = [
        one for one in read(seeder, media="https://seeder.example/media/") if isinstance(one, CollectionEntry)
    ]

    first = CollectionEntry(
        collection="A", annotation="ano", picture="https://seeder.example/media/a%20b/%C4%8D.jpg", position=0
    )
    second = CollectionEntry(collection="B", annotation="Old sites.\nTwo & more\nx", position=1)
    assert found == [first, second]


def test_a_collection_has_the_seeds_of_its_internal_collections(seeder: Seeder) -> None:
    source = seeder.source()
    seeder.collection(
        source, title="A", seeds=["http://a.cz/\r\nhttp://b.cz/x\n", " http://a.cz/ http://c.cz/"]
    )
    seeder.collection(source, title="B", seeds=[""])
    seeder.collection(source, title="Hidden", active=False, seeds=["http://d.cz/"])
    assert [one.seeds for one in described(seeder)] == [("http://a.cz/", "http://b.cz/x", "http://c.cz/"), ()]


@pytest.mark.parametrize(
    ("seeds", "reason"),
    [
        (["http://a.cz/ " * 700_000, "http://b.cz/"], "have 9,100,000 bytes, and at most 8,388,608"),
        (["http://b.cz/", "\n".join(f"a{n}.cz" for n in range(100_000))], "more than 100,000 custom seeds"),
    ],
)  # fmt: skip
def test_too_many_seeds_of_a_collection_are_refused(seeder: Seeder, seeds: list[str], reason: str) -> None:
    seeder.collection(seeder.source(), title="A", seeds=seeds)
    seeder.collection(title="B", seeds=["http://b.cz/"])
    assert [one.seeds for one in described(seeder)] == [None, ("http://b.cz/",)]
    refused = [one for one in read(seeder) if isinstance(one, Refused)]
    assert len(refused) == 1
    assert refused[0].is_decision
    assert reason in refused[0].reason


def test_without_access_to_their_column_the_seeds_of_collections_stay(seeder: Seeder) -> None:
    seeder.collection(seeder.source(), title="A", seeds=["http://a.cz/"])
    seeder.connection.execute("ALTER TABLE harvests_topiccollection DROP COLUMN custom_seeds")
    assert [one.seeds for one in described(seeder)] == [None]
    words = "no column harvests_topiccollection.custom_seeds: the URLs of collections stay as they are"
    assert Remark(place="all", words=words) in read(seeder)


def described(seeder: Seeder) -> list[CollectionEntry]:
    return [one for one in read(seeder) if isinstance(one, CollectionEntry)]


def test_without_access_to_their_columns_collections_have_only_names(seeder: Seeder) -> None:
    seeder.collection(seeder.source(), title="A", annotation="text")
    seeder.connection.execute("ALTER TABLE harvests_externaltopiccollection DROP COLUMN image")
    found = read(seeder)
    assert not [one for one in found if isinstance(one, CollectionEntry)]
    assert [one.collections for one in found if isinstance(one, TitleEntry)] == [("A",)]
    words = "no column harvests_externaltopiccollection.image: collections are not described"
    assert NotDescribed(place="all", words=words) in found


def test_a_subject_has_a_number_only_if_there_is_one(seeder: Seeder) -> None:
    old, new, unclear = (seeder.add("source_category", name=name) for name in "ABC")
    seeder.number(old, 9)
    seeder.number(new, 4, model="conspectussubcategories")
    seeder.number(unclear, 1)
    seeder.number(unclear, 2)
    for category in (old, new, unclear):
        seeder.source(category_id=category)
    assert [entry.subjects[0].number for entry in entries(seeder)] == [9, None, None]
    seeder.connection.execute("DROP TABLE legacy_db_transferrecord")
    assert [entry.subjects[0].number for entry in entries(seeder)] == [None, None, None]
    assert read(seeder)[0] == Remark(
        place="all",
        words="no table legacy_db_transferrecord in the role's search path: subject groups have no numbers",
    )


def test_lists_of_addresses_are_read_with_their_kind(seeder: Seeder) -> None:
    numbers = [
        seeder.addresses(title, "a.cz", "b.cz/x", kind=kind) for kind, title in enumerate(["A", "B", "C"])
    ]
    kinds = ["for harvests", "for visibility", "of the type 2"]
    assert read(seeder) == [
        AddressList(key=str(number), title=title, kind=kind, text="a.cz\r\nb.cz/x")
        for number, title, kind in zip(numbers, "ABC", kinds, strict=True)
    ]


def bring(titles: Titles, seeder: Seeder) -> None:
    titles.bring(*read(seeder), source="seeder")


def test_a_repeated_import_changes_nothing_and_later_changes_are_imported(
    titles: Titles, archive: Archive, seeder: Seeder
) -> None:
    archive.add(SITE)
    source = seeder.source("success", SITE, "-http://www.example.cz/shop/")
    contract = seeder.contract(source, creative_commons_type="CC BY 4.0", valid_to="2999-01-01")
    seeder.source("forced", "http://b.cz/")
    bring(titles, seeder)
    before = titles[str(source)]
    assert (before.captures, before.licence, before.deleted) == (1, "cc-by-4.0", False)
    plan = titles.plan(*read(seeder), source="seeder")
    assert (plan.new, plan.changed, plan.gone, plan.unchanged) == ([], [], [], 2)
    seeder.change("contracts_contract", contract, state="EXPIRED")
    (changed,) = titles.plan(*read(seeder), source="seeder").changed
    assert set(changed.fields) == {"contract_from", "contract_to", "licence"}
    bring(titles, seeder)
    ended = titles[str(source)]
    assert (ended.licence, ended.deleted, ended.datestamp > before.datestamp) == (None, False, True)
    seeder.change("source_source", source, state="forced")
    bring(titles, seeder)
    forced = titles[str(source)]
    assert (forced.state, forced.public, forced.deleted, forced.gone) == ("forced", False, True, False)
    assert forced.datestamp > ended.datestamp
    seeder.change("source_source", source, active=False)
    bring(titles, seeder)
    assert titles[str(source)].gone
    seeder.change("source_source", source, active=True, state="success")
    bring(titles, seeder)
    assert not titles[str(source)].deleted


def test_invalid_values_of_a_title_cause_warnings_in_the_plan(titles: Titles, seeder: Seeder) -> None:
    source = seeder.source("success", "no url", "-also none")
    seeder.contract(source, creative_commons_type="to be agreed")
    plan = titles.plan(*read(seeder), source="seeder")
    no_url = (
        "is not an http, https or ftp URL with a host and at most 1,300 characters, or has blanks or a "
        "wildcard; no captures match it"
    )
    assert plan.warnings == [
        f"key {source}: unknown licence 'to be agreed'; the title gets no licence",
        f"key {source}: the seed 'no url' {no_url}",
        f"key {source}: the carve-out 'also none' {no_url}",
    ]


def test_remarks_about_a_title_can_be_translated_and_have_its_key(titles: Titles, seeder: Seeder) -> None:
    source = seeder.source("success")
    (warning, *_) = titles.plan(*read(seeder), source="seeder").warnings
    assert warning.startswith(f"key {source}: ")
    assert isinstance(warning, Phrase)
    czech = {"it has no active seed, and so no captures": "bez semínek", "key %(key)s": "klíč %(key)s"}
    assert warning.in_words(lambda words: czech.get(words, words)) == f"klíč {source}: bez semínek"


def test_missing_tables_and_columns_and_an_empty_schema_are_reported(seeder: Seeder) -> None:
    seeder.connection.execute("ALTER TABLE source_seed DROP COLUMN from_time, DROP COLUMN to_time")
    seeder.connection.execute("ALTER TABLE contracts_contract RENAME TO contracts_agreement")
    with pytest.raises(UsageError) as caught:
        read(seeder)
    assert (
        ": no column source_seed.from_time; no column source_seed.to_time; "
        "no table contracts_contract in the role's search path. Expected are" in str(caught.value)
    )
    assert "manage.py migrate" in str(caught.value)


def test_an_unreachable_database_is_reported_without_its_password() -> None:
    with pytest.raises(RemoteError) as caught:
        list(read_seeder("postgresql://reader:s3cret@127.0.0.1:1/seeder", STATE_RULES))
    assert str(caught.value).startswith("Seeder's database reader@127.0.0.1:1/seeder: connection")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://reader:s3@cret@localhost/seeder",
        "postgresql://reader:s3/cret@localhost/seeder",
        "postgresql://reader:55/s3cret@localhost/seeder",
        "postgresql://reader:s3%cret@localhost/seeder",
        "postgresql://reader:s3cret@[localhost/seeder",
        "postgresql://reader:s3cret@localhost/seeder?s3cret=1",
    ],
)
def test_an_invalid_database_address_is_refused_without_quoting_it(address: str) -> None:
    with pytest.raises(UsageError, match=r"special characters as %XX") as caught:
        list(read_seeder(address, STATE_RULES))
    assert "cret" not in str(caught.value)


def many(seeder: Seeder) -> None:
    category = seeder.add("source_category", name="Hudba")
    seeder.connection.execute(
        "INSERT INTO source_source (name, state, category_id)"
        " SELECT 'Source ' || number, 'forced', %s FROM generate_series(1, %s) AS number ORDER BY number",
        [category, MANY],
    )


def test_an_interrupted_read_imports_nothing(titles: Titles, seeder: Seeder) -> None:
    many(seeder)

    def interrupted() -> Iterator[Read]:
        found = read_seeder(f"{seeder.address}&application_name=ours", STATE_RULES)
        yield next(found)
        seeder.connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'ours'"
        )
        yield from found

    with pytest.raises(RemoteError, match=r"terminating connection.*nothing has been imported"):
        titles.bring(*interrupted(), source="seeder")
    assert titles.plan(source="seeder").stored == 0


def test_all_tables_are_read_from_one_snapshot(seeder: Seeder) -> None:
    source = seeder.source("success", SITE)
    seeder.connection.execute("DROP TABLE legacy_db_transferrecord")
    found = read_seeder(seeder.address, STATE_RULES)
    assert isinstance(next(found), Remark)  # before the sources and seeds are read
    seeder.change("source_source", source, name="changed")
    seeder.connection.execute("DELETE FROM source_seed")
    seeder.source("success", SITE)
    (entry,) = [one for one in found if isinstance(one, TitleEntry)]
    assert (entry.name, entry.seeds) == ("A source", (Seed(url=SITE),))


def test_reading_uses_a_read_only_transaction(seeder: Seeder) -> None:
    seeder.source("success", SITE, publisher_id=1)
    seeder.connection.execute(
        "DROP TABLE publishers_publisher; CREATE VIEW publishers_publisher AS"
        " SELECT 1 AS id, 'read only: ' || current_setting('transaction_read_only') AS name"
    )
    assert [entry.publisher for entry in entries(seeder)] == ["read only: on"]


def test_statements_have_a_time_limit(seeder: Seeder) -> None:
    with seeder.connection.transaction():
        seeder.connection.execute("LOCK TABLE source_seed")
        with pytest.raises(RemoteError, match="statement timeout"):
            list(read_seeder(seeder.address, STATE_RULES, statement_seconds=0.05))


GRANT = re.compile(r"^GRANT SELECT \((.*)\) ON (\w+) TO reader;$", re.MULTILINE)


def test_the_documented_privileges_are_sufficient_and_necessary(seeder: Seeder) -> None:
    documented = {
        table: tuple(name.strip('"') for name in names.split(", "))
        for names, table in GRANT.findall(GUIDE.read_text(encoding="utf-8"))
    }
    wanted = [one for part in (COLUMNS, NUMBER_COLUMNS, TEXT_COLUMNS, SEED_COLUMNS) for one in part.items()]
    everything: dict[str, tuple[str, ...]] = {}
    for table, names in wanted:
        everything[table] = (*everything.get(table, ()), *names)
    assert documented == everything
    source = seeder.source("success", SITE)
    role = f"reader_{seeder.connection.info.dbname}"
    connection = seeder.connection
    connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA seeder TO {role}")
    limited = f"{seeder.address}%20-crole%3D{role}"
    try:
        with pytest.raises(UsageError, match=r"no right to SELECT source_source\.id; no right to SELECT"):
            list(read_seeder(limited, STATE_RULES))
        for found in GRANT.finditer(GUIDE.read_text(encoding="utf-8")):
            connection.execute(found[0].replace("TO reader", f"TO {role}"))
        keys = [one.key for one in read_seeder(limited, STATE_RULES) if isinstance(one, TitleEntry)]
        assert keys == [str(source)]
    finally:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
