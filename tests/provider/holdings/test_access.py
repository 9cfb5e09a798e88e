"""The strictest rule of a document's collections applies; only documents whose rule changes are redated."""

import random
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

import provider.holdings.publication
from oai.database import Database
from oai.errors import UsageError
from oai.sections import ProviderSettings
from provider.holdings.access import lift_embargoes, refresh
from provider.holdings.collections import drop, move
from provider.holdings.rules import Rule, rights_of, strictest
from provider.models import UNLISTED, Access, Collection, DocumentCollection
from tests.provider.holdings.staff import (
    EMBARGO,
    LONG_EMBARGO,
    OPEN,
    ROOM,
    RULES,
    SOON,
    WITHHELD,
    Staff,
    collection,
    index,
)


def test_the_strictest_rule_and_the_latest_embargo_apply() -> None:
    for looser, stricter in combinations([OPEN, ROOM, EMBARGO, LONG_EMBARGO, WITHHELD], 2):
        assert strictest([looser, stricter]) == strictest([stricter, looser]) == stricter
    assert strictest([ROOM, WITHHELD, LONG_EMBARGO, OPEN, EMBARGO]) == WITHHELD
    assert strictest([]) == OPEN


def test_a_rule_applies_to_the_collections_below(staff: Staff) -> None:
    staff.assign("x:y", "a")
    staff.assign("z", "a", "b")
    assert staff.rule("x", EMBARGO) == 1
    assert staff.rules() == {"a": EMBARGO, "b": OPEN, "c": OPEN, "d": OPEN}
    assert staff.rule("z", ROOM) == 1
    assert staff.rules() == {"a": EMBARGO, "b": ROOM, "c": OPEN, "d": OPEN}
    staff.remove("x:y", "a")
    assert staff.rules()["a"] == ROOM


def test_a_changed_rule_redates_only_documents_whose_effective_rule_changes(staff: Staff) -> None:
    staff.assign("x", "a", "b")
    staff.assign("z", "b", "c")
    staff.rule("z", WITHHELD)
    staff.age()
    before = staff.documents()
    assert staff.rule("x", ROOM) == 1
    assert staff.redated(before) == {"a"}
    before = staff.documents()
    assert staff.rule("x", ROOM) == 0
    assert staff.redated(before) == set()


def test_a_longer_embargo_redates_its_documents(staff: Staff) -> None:
    staff.assign("x", "a")
    staff.rule("x", EMBARGO)
    staff.age()
    before = staff.documents()
    assert staff.rule("x", LONG_EMBARGO) == 1
    assert staff.redated(before) == {"a"}
    assert staff.rules()["a"] == LONG_EMBARGO


def test_an_impossible_rule_is_refused(staff: Staff) -> None:
    for rule in (
        Rule(access=Access.EMBARGO),
        Rule(access=Access.OPEN, embargo_until=SOON),
        Rule(access=Access.EMBARGO, embargo_until=datetime(2001, 1, 1, tzinfo=UTC)),
    ):
        with pytest.raises(UsageError, match="embargo"):
            staff.rule("x", rule)


def test_an_embargo_ends_on_its_date_at_the_next_refresh(staff: Staff, database: Database) -> None:
    staff.assign("x", "a", "b")
    staff.assign("z", "b")
    staff.rule("z", ROOM)
    staff.rule("x", EMBARGO)
    with database.session() as session:
        assert lift_embargoes(session, margin=1) == 0
        session.execute(
            update(Collection).where(Collection.access == "embargo").values(embargo_until=before())
        )
        session.commit()
    staff.age()
    earlier = staff.documents()
    with database.session() as session:
        assert refresh(session, margin=1) == 2
        assert refresh(session, margin=1) == 0
    assert staff.rules() == {"a": OPEN, "b": ROOM, "c": OPEN, "d": OPEN}
    assert staff.redated(earlier) == {"a", "b"}
    assert collection(database, "x").access == "open"


def before() -> datetime:
    return datetime(2020, 1, 1, tzinfo=UTC)


def test_documents_indexed_into_a_withheld_collection_are_unlisted_until_it_is_opened(
    staff: Staff, database: Database, tmp_path: Path
) -> None:
    staff.rule("x", WITHHELD)
    index(database, tmp_path, "ef", collection=collection(database, "x:y").id)
    documents = staff.documents()
    assert {documents[host].datestamp for host in "ef"} == {UNLISTED}
    assert staff.rules()["e"] == WITHHELD
    staff.assign("z", "e")
    assert staff.documents()["e"].datestamp == UNLISTED
    assert staff.redated(documents) == set()
    staff.rule("x", OPEN)
    assert all(one.datestamp < UNLISTED for one in staff.documents().values())
    assert set(staff.rules().values()) == {OPEN}
    assert collection(database, "x").documents == 2


def test_a_withheld_document_that_was_listed_stays_with_a_later_datestamp(staff: Staff) -> None:
    staff.assign("x", "a")
    staff.age()
    before = staff.documents()
    staff.rule("x", WITHHELD)
    assert before["a"].datestamp < staff.documents()["a"].datestamp < UNLISTED


def test_new_documents_have_the_rule_of_their_collection(
    staff: Staff, database: Database, tmp_path: Path
) -> None:
    staff.rule("x", EMBARGO)
    index(database, tmp_path, "e", collection=collection(database, "x:y").id)
    assert staff.rules()["e"] == EMBARGO


def test_an_interrupted_change_is_finished(
    staff: Staff, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    staff.assign("x", *"abcd")
    staff.age()
    earlier = staff.documents()
    monkeypatch.setattr(provider.holdings.publication, "COMMIT_SECONDS", 1e9)
    with pytest.raises(provider.holdings.publication.PublishingError):
        staff.rule("x", ROOM)
    assert staff.rules()["a"] == OPEN
    monkeypatch.undo()
    with database.session() as session:
        assert refresh(session, margin=1) == 4
    assert set(staff.rules().values()) == {ROOM}
    assert staff.redated(earlier) == set("abcd")
    assert collection(database, "x").unsettled is None


def test_moving_a_collection_updates_rules_datestamps_and_counts(staff: Staff, database: Database) -> None:
    staff.assign("x:y", "a", "b")
    staff.assign("z", "c")
    staff.rule("z", ROOM)
    staff.age()
    earlier = staff.documents()
    with database.session() as session:
        assert move(session, "collection:x:y", "collection:z:new", margin=1) == 2
    assert staff.rules() == {"a": ROOM, "b": ROOM, "c": ROOM, "d": OPEN}
    assert staff.redated(earlier) == {"a", "b"}
    assert [collection(database, spec).documents for spec in ("x", "z", "z:new")] == [0, 3, 2]


def test_renaming_a_set_spec_redates_the_documents_below_it(staff: Staff, database: Database) -> None:
    staff.make("x:y:deep")
    staff.assign("x:y:deep", "a")
    staff.age()
    earlier = staff.documents()
    with database.session() as session:
        assert move(session, "collection:x:y", "collection:x:why", margin=1) == 1
    assert staff.redated(earlier) == {"a"}
    assert collection(database, "x:why:deep").documents == 1
    assert collection(database, "x").documents == 1


def test_an_impossible_move_is_refused(staff: Staff, database: Database) -> None:
    for old, new in (
        ("collection:x", "collection:x:y:z"),
        ("collection:x", "collection:z"),
        ("collection:x", "collection:x"),
        ("collection", "collection:z:a"),
        ("collection:x", "collection"),
        ("collection:none", "collection:new"),
    ):
        with database.session() as session, pytest.raises(UsageError):
            move(session, old, new, margin=1)
        assert collection(database, "x:y").set_spec == "collection:x:y", (old, new)
    staff.assign("x:y", "a")


def test_a_collection_with_documents_is_dropped_only_with_force(staff: Staff, database: Database) -> None:
    staff.assign("x:y", "a")
    staff.assign("x", "b")
    staff.rule("x", WITHHELD)
    with database.session() as session, pytest.raises(UsageError, match="--force"):
        drop(session, "collection:x", force=False, margin=1)
    with database.session() as session:
        assert drop(session, "collection:z", force=False, margin=1) == 0
        assert drop(session, "collection:x", force=True, margin=1) == 2
        assert session.scalars(select(Collection.set_spec)).all() == ["collection"]
        assert session.scalars(select(DocumentCollection)).all() == []
        assert session.scalars(select(Collection.documents)).one() == 0
    assert set(staff.rules().values()) == {OPEN}


@pytest.mark.parametrize("chunk", [1, 3, pytest.param(100, marks=pytest.mark.long)])
def test_after_any_changes_every_document_has_its_strictest_rule(
    staff: Staff, database: Database, chunk: int
) -> None:
    staff.chunk = chunk
    chance = random.Random(chunk)
    specs = ["x", "x:y", "z"]
    own = dict.fromkeys(specs, OPEN)
    direct: set[tuple[str, str]] = set()
    for _ in range(15):
        spec, host, rule = chance.choice(specs), chance.choice("abcd"), chance.choice(RULES)
        step = chance.randrange(3)
        if step == 0:
            staff.rule(spec, rule)
            own[spec] = rule
        elif step == 1:
            staff.assign(spec, host)
            direct.add((host, spec))
        else:
            staff.remove(spec, host)
            direct.discard((host, spec))
        expected = {
            one: strictest(
                [
                    own[above]
                    for host, spec in direct
                    if host == one
                    for above in specs
                    if spec == above or spec.startswith(f"{above}:")
                ]
            )
            for one in "abcd"
        }
        assert staff.rules() == expected
    with database.session() as session:
        wrong = session.execute(
            text(
                "SELECT collection.id FROM collection LEFT JOIN document_collection ON collection_id = id"
                " GROUP BY id HAVING documents <> count(document_id)"
            )
        ).all()
    assert wrong == []


def test_rights_statements_have_the_wording_of_the_settings() -> None:
    settings = ProviderSettings(rights_reading_room="Jen ve studovně.", rights_embargo="Od {until}.")
    assert rights_of(settings, "reading room") == "Jen ve studovně."
    assert rights_of(settings, "embargo", SOON) == "Od 2900-01-01."
    assert rights_of(settings, "open").startswith("Open access")


def test_all_changes_that_are_finished_are_counted(staff: Staff, database: Database) -> None:
    staff.assign("x", "a")
    staff.assign("z", "b")
    staff.rule("x", EMBARGO)
    with database.session() as session:
        ended = update(Collection).where(Collection.access == "embargo").values(embargo_until=before())
        session.execute(ended)
        withheld = update(Collection).where(Collection.set_spec == "collection:z")
        session.execute(withheld.values(access=Access.READING_ROOM, unsettled=before()))
        session.commit()
        assert refresh(session, margin=1) == 2
