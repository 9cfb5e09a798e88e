"""All stored facts about one document."""

import uuid

from oai.database import Database
from provider.holdings.access import set_rule
from provider.holdings.document_details import document_facts
from provider.holdings.rules import Rule
from provider.models import UNLISTED, Access, Arc
from tests.provider.archive import Archive


def test_document_facts_are_those_of_the_requested_document(archive: Archive, database: Database) -> None:
    archive.add("http://before.cz/", mime_type="image/png", collections=["collection:a"])
    added = archive.add(
        "http://www.example.cz/", mime_type="text/plain", title="Title", collections=["collection:b:c"]
    )
    archive.add("http://later.cz/", mime_type="video/mp4", collections=["collection:d"])

    with database.session() as session:
        facts = document_facts(session, uuid.UUID(added.rpartition(":")[2]))

    assert facts is not None
    assert (facts.url, facts.title, facts.mime_type) == ("http://www.example.cz/", "Title", "text/plain")
    assert facts.host == "domain:cz:example:www"
    assert {one.set_spec: one.direct for one in facts.collections} == {
        "collection": False, "collection:b": False, "collection:b:c": True,
    }  # fmt: skip
    assert facts.datestamp is not None


def test_an_unlisted_document_has_no_datestamp_and_a_file_without_path_its_name(
    archive: Archive, database: Database
) -> None:
    key = uuid.UUID(archive.add(datestamp=UNLISTED).rpartition(":")[2])
    with database.session() as session:
        (file,) = session.query(Arc).all()
        file.path, file.name = "/archive/a.warc", "a.warc"
        session.flush()
        with_path = document_facts(session, key)
        file.path = None
        session.flush()
        without_path = document_facts(session, key)
        unknown = document_facts(session, uuid.UUID(int=0))

    assert with_path is not None
    assert (with_path.file, with_path.datestamp) == ("/archive/a.warc", None)
    assert without_path is not None
    assert without_path.file == "a.warc"
    assert unknown is None


def test_the_collections_whose_rule_closes_a_document_are_marked(
    archive: Archive, database: Database
) -> None:
    closed = archive.add("http://a.cz/", collections=["collection:a:b", "collection:c"])
    opened = archive.add("http://b.cz/", collections=["collection:c"])

    with database.session() as session:
        set_rule(session, "collection:a", Rule(access=Access.READING_ROOM), margin=1)
        found = [document_facts(session, uuid.UUID(one.rpartition(":")[2])) for one in (closed, opened)]

    assert [[one.set_spec for one in facts.collections if one.decides] for facts in found if facts] == [
        ["collection:a"],
        [],
    ]
