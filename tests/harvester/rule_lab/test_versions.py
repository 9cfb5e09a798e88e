"""Rule files are stored in versions, and the file on the disk is authoritative."""

from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from harvester.rule_lab.files import file_of
from harvester.rule_lab.models import Rule
from harvester.rule_lab.versions import (
    RuleDraft,
    add_rule,
    difference,
    digest_of,
    find_rule,
    last_version,
    list_rules,
    list_versions,
    remove_rule,
    restore,
    save_version,
    version_of_digest,
)
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.harvester.rule_lab.records import FILTERS

_OTHER = FILTERS.replace(b"cultur", b"nature")
_DRAFT = RuleDraft(kind=RuleKind.FILTER, name="Culture, přírodou", content=FILTERS)


def _added(session: Session, settings: Settings) -> Rule:
    rule = add_rule(session, settings, _DRAFT, by="Alena", note="first")
    session.commit()
    return rule


def test_each_save_creates_a_version_and_writes_the_file(settings: Settings, database: Database) -> None:
    with database.session() as session:
        rule = _added(session, settings)
        file = file_of(settings, rule)
        assert (rule.path, file.read_bytes()) == ("rules/culture-prirodou.xml", FILTERS)

        second = save_version(session, settings, rule.rule_id, _OTHER, by="Alena", note="other", based_on=1)
        same = save_version(session, settings, rule.rule_id, _OTHER, by="Alena")

        assert (second.number, same.number, file.read_bytes()) == (2, 2, _OTHER)
        assert "-  <filter" in difference(list_versions(session, rule.rule_id)[1], second)
        for _click in ("once", "twice"):
            assert restore(session, settings, rule.rule_id, 1, by="Petr", based_on=2).number == 3
        assert file.read_bytes() == FILTERS
        assert [one.note for one in list_versions(session, rule.rule_id)] == [
            "version 1 again",
            "other",
            "first",
        ]
        assert list(file.parent.iterdir()) == [file]


def test_a_save_based_on_an_older_version_reports_who_changed_it(
    settings: Settings, database: Database
) -> None:
    with database.session() as session:
        rule = _added(session, settings)
        save_version(session, settings, rule.rule_id, _OTHER, by="Alena")
        with pytest.raises(UsageError, match="version 2 was saved while you were editing version 1"):
            save_version(session, settings, rule.rule_id, FILTERS, by="Petr", based_on=1)


def test_invalid_rules_change_nothing(settings: Settings, database: Database) -> None:
    with database.session() as session:
        rule = _added(session, settings)
        with pytest.raises(RuleFileError, match="line 3, column 32"):
            save_version(session, settings, rule.rule_id, FILTERS.replace(b'"cultur"', b'"("'), by="Alena")
        assert file_of(settings, rule).read_bytes() == FILTERS
        assert last_version(session, rule.rule_id).number == 1


def test_edits_made_by_hand_are_stored_before_they_are_replaced(
    settings: Settings, database: Database
) -> None:
    with database.session() as session:
        rule = _added(session, settings)
        file_of(settings, rule).write_bytes(_OTHER)
        assert restore(session, settings, rule.rule_id, 1, by="Alena").number == 3
        assert [(one.number, one.content == _OTHER) for one in list_versions(session, rule.rule_id)] == [
            (3, False),
            (2, True),
            (1, False),
        ]


def test_an_existing_file_is_managed_where_it_is(settings: Settings, database: Database) -> None:
    file = settings.data / "mine" / "x.xml"
    file.parent.mkdir(parents=True)
    file.write_bytes(FILTERS)
    with database.session() as session:
        rule = add_rule(session, settings, _DRAFT, by=None, path="mine/x.xml")
        assert (rule.path, Path(file).read_bytes()) == ("mine/x.xml", FILTERS)
        with pytest.raises(UsageError, match="already managed as a rule"):
            add_rule(session, settings, _DRAFT, by=None, path="mine/../mine/x.xml")
        with pytest.raises(UsageError, match="not in the data folder"):
            add_rule(session, settings, _DRAFT, by=None, path="../x.xml")


def test_a_missing_or_invalid_file_is_written_again(settings: Settings, database: Database) -> None:
    with database.session() as session:
        rule = _added(session, settings)
        file = file_of(settings, rule)
        file.unlink()
        assert restore(session, settings, rule.rule_id, 1, by="Alena").number == 1
        assert file.read_bytes() == FILTERS
        file.write_bytes(b"<filters>")
        assert restore(session, settings, rule.rule_id, 1, by="Alena").number == 1
        assert file.read_bytes() == FILTERS


def test_rules_of_the_same_name_get_separate_files(settings: Settings, database: Database) -> None:
    with database.session() as session:
        first, second = _added(session, settings), _added(session, settings)
        assert second.path == "rules/culture-prirodou-2.xml"
        with pytest.raises(UsageError, match="give a number"):
            find_rule(session, first.name)
        assert find_rule(session, str(second.rule_id)) is second
        assert [view.version.number for view in list_rules(session)] == [1, 1]
        digest = digest_of(FILTERS)
        found = version_of_digest(session, digest)
        assert found is not None
        assert found.rule_id == second.rule_id
        remove_rule(session, first.rule_id)
        assert file_of(settings, first).is_file()
        assert len(list_rules(session)) == 1
