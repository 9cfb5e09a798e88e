"""Sets store how many of their documents were never listed, and are public if any was listed."""

from pathlib import Path

from sqlalchemy import text

from oai.database import Database
from provider.holdings.collections import drop, move
from provider.holdings.selection import Selection, hide
from provider.models import UNLISTED
from provider.protocol.pages import set_page
from tests.provider.holdings.staff import OPEN, WITHHELD, Staff, collection, index

_RECOUNT = """
WITH unlisted AS (SELECT * FROM document WHERE datestamp = :unlisted),
member (tree, id, document) AS (
    SELECT 'collection', membership.collection_id, unlisted.id
    FROM unlisted JOIN document_collection AS membership ON membership.document_id = unlisted.id
    UNION SELECT 'domain', unnest(ARRAY[tld_id, domain_id, host_id]), id FROM unlisted
    UNION SELECT 'mimetype', unnest(ARRAY[mime_major_id, mime_id]), id FROM unlisted
)
SELECT tree, id, count(*) FROM member GROUP BY tree, id ORDER BY tree, id
"""
_KEPT = """
SELECT 'collection' AS tree, id, unlisted FROM collection WHERE unlisted <> 0
UNION ALL SELECT 'domain', id, unlisted FROM domain WHERE unlisted <> 0
UNION ALL SELECT 'mimetype', id, unlisted FROM mimetype WHERE unlisted <> 0
ORDER BY tree, id
"""


def kept(database: Database) -> int:
    """Return the sum of the sets' stored counts, after comparing each with the documents."""
    with database.session() as session:
        recounted = session.execute(text(_RECOUNT), {"unlisted": UNLISTED}).all()
        assert session.execute(text(_KEPT)).all() == recounted
        return len(recounted)


def public(database: Database) -> set[str]:
    with database.session() as session:
        return {row.set_spec for row in set_page(session, after=None, limit=1000)}


def test_the_unlisted_count_follows_indexing_access_rules_and_moved_collections(
    staff: Staff, database: Database, tmp_path: Path
) -> None:
    assert kept(database) == 0
    staff.chunk = 1
    staff.rule("x", WITHHELD)
    index(database, tmp_path, ["e.secret.test", "f.secret.test"], collection=collection(database, "x:y").id)
    assert kept(database) == 3 + 4 + 2
    staff.assign("z", "e.secret.test")
    assert kept(database) == 4 + 4 + 2
    with database.session() as session:
        hide(session, Selection(url="http://f.secret.test/"), margin=1)
        move(session, "collection:x:y", "collection:z:y", margin=1)
    hidden = kept(database)
    assert hidden > 0, "what is hidden is not listed, not even as deleted"
    staff.rule("z", WITHHELD)
    assert kept(database) == hidden
    index(database, tmp_path, ["g.secret.test"], collection=collection(database, "z").id)
    assert kept(database) > hidden
    staff.rule("z", OPEN)
    with database.session() as session:
        drop(session, "collection:x", force=True, margin=1)
    assert kept(database) == hidden


def test_a_set_whose_documents_were_listed_stays_public_when_they_are_withheld(
    staff: Staff, database: Database
) -> None:
    staff.assign("x:y", "a")
    before = public(database)
    staff.rule("x", WITHHELD)
    assert public(database) == before >= {"collection:x", "collection:x:y", "domain:a"}


def test_an_empty_collection_is_public_until_it_or_a_parent_is_withheld(
    staff: Staff, database: Database
) -> None:
    staff.make("x:y:empty", "xy")
    assert {"collection:x", "collection:x:y", "collection:x:y:empty"} <= public(database)
    staff.rule("x", WITHHELD)
    shown = {one for one in public(database) if one.startswith("collection:")}
    assert shown == {"collection:xy", "collection:z"}


def test_a_hidden_unlisted_capture_stays_unlisted_when_its_collection_is_opened(
    staff: Staff, tmp_path: Path
) -> None:
    """Listed as deleted, it would be revealed for the first time."""
    (tmp_path / "more").mkdir()
    staff.rule("z", WITHHELD)
    index(staff.database, tmp_path / "more", ["h.cz"], collection=collection(staff.database, "z").id)
    with staff.database.session() as session:
        hide(session, Selection(url="http://h.cz/"), margin=1)
    staff.rule("z", OPEN)

    assert staff.documents()["h.cz"].datestamp.year == 9999
