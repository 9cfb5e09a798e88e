"""A preview reports what the change will do: documents, access before and after, harvesters."""

import random
from collections import Counter
from pathlib import Path

import pytest

from oai.database import Database
from oai.errors import UsageError
from provider.holdings import previews
from provider.holdings.previews import ChangePreview, preview_assignment, preview_rule
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.models import Access
from tests.provider.holdings.staff import EMBARGO, OPEN, ROOM, RULES, WITHHELD, Staff, index
from tests.provider.titles.conftest import Titles, entry, settle

HOSTS = ["a.cz", "b.cz", "c.cz", "d.cz"]


@pytest.fixture
def staff(database: Database, tmp_path: Path) -> Staff:
    index(database, tmp_path, HOSTS)
    staff = Staff(database)
    staff.make("x", "x:y", "z")
    return staff


def of_rule(database: Database, spec: str, rule: Rule) -> ChangePreview:
    with database.session() as session:
        return preview_rule(session, f"collection:{spec}", rule)


def of_documents(database: Database, spec: str, host: str, *, takes_out: bool) -> ChangePreview:
    with database.session() as session:
        chosen = Selection(url=f"http://{host}/")
        return preview_assignment(session, f"collection:{spec}", chosen, takes_out=takes_out)


def add_title(database: Database, host: str, rule: Rule) -> None:
    """Import a title with this rule and the documents of a host."""
    Titles(database).bring(entry(host, f"http://{host}/", access=rule.access), source=host)
    settle(database)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_preview_reports_the_access_changes_that_the_change_makes(
    staff: Staff, database: Database, seed: int
) -> None:
    add_title(database, "a.cz", ROOM)
    chance = random.Random(seed)
    previewed = 0
    for _ in range(20):
        spec, host, rule = chance.choice(["x", "x:y", "z"]), chance.choice(HOSTS), chance.choice(RULES)
        before, step = staff.rules(), chance.randrange(3)
        if step == 0:
            found = of_rule(database, spec, rule)
            staff.rule(spec, rule)
        else:
            found = of_documents(database, spec, host, takes_out=step == 2)
            (staff.assign if step == 1 else staff.remove)(spec, host)
        after = staff.rules()
        changed = Counter(
            (before[one].access, after[one].access) for one in HOSTS if before[one] != after[one]
        )
        assert found.access == changed
        previewed += sum(found.access.values())
    assert previewed > 5


def test_a_preview_includes_the_rule_of_the_title(staff: Staff, database: Database) -> None:
    add_title(database, "a.cz", ROOM)
    assert of_documents(database, "x", "a.cz", takes_out=False).access == {}
    staff.assign("x", "a.cz")
    assert of_documents(database, "x", "a.cz", takes_out=True).access == {}
    assert of_rule(database, "x", ROOM).access == {}
    assert of_rule(database, "x", EMBARGO).access == {(Access.READING_ROOM, Access.EMBARGO): 1}
    staff.rule("x", EMBARGO)
    assert of_rule(database, "x", OPEN).access == {(Access.EMBARGO, Access.READING_ROOM): 1}


def test_documents_and_examples_are_counted(
    staff: Staff, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    staff.assign("x", *HOSTS)
    found = of_rule(database, "x", WITHHELD)
    assert (found.documents, found.more, found.harvesters) == (4, False, 0)
    assert found.access == {(Access.OPEN, Access.WITHHELD): 4}
    assert [url for url, _archived in found.examples] == [f"http://{host}/" for host in HOSTS]
    assert staff.rules() == dict.fromkeys(HOSTS, OPEN), "nothing is changed"

    monkeypatch.setattr(previews, "MOST_COUNTED", 3)
    found = of_rule(database, "x", ROOM)
    assert (found.documents, found.more) == (3, True)


@pytest.mark.usefixtures("staff")
def test_a_preview_refuses_what_the_change_refuses(database: Database) -> None:
    with pytest.raises(UsageError, match="no collection"):
        of_rule(database, "nowhere", ROOM)
    with pytest.raises(UsageError, match="needs one"):
        of_rule(database, "x", Rule(access=Access.EMBARGO))
    with pytest.raises(UsageError, match="no documents selected"), database.session() as session:
        preview_assignment(session, "collection:x", Selection(), takes_out=False)
