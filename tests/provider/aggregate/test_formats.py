"""The formats of the aggregate, and the addresses of their schemas."""

import shutil

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.vocabulary import OAI_DC_NAMESPACE
from provider.aggregate.formats import Formats
from provider.aggregate.models import AggregateFormat
from provider.aggregate.sources import add_source, find_repository, walk_everything
from tests.provider.aggregate.harvested_rows import Harvested
from tests.provider.served import until

_SLIM = "http://www.loc.gov/MARC21/slim"
_DECLARED = """
WITH declared AS (
    INSERT INTO oai_metadata_format (metadata_prefix, metadata_schema, metadata_namespace)
    VALUES (:prefix, 's.xsd', :namespace) RETURNING prefix_id
)
INSERT INTO oai_prefix_mapping (repository_id, prefix_id) SELECT :repository_id, prefix_id FROM declared
"""
_OF_RECORDS = """
SELECT prefix, namespace, deleted, count(*) FROM aggregate_record JOIN aggregate_format AS format
    ON format.id = format_id
GROUP BY prefix, namespace, deleted ORDER BY prefix, deleted
"""
_ALSO_AS_V = """
INSERT INTO oai_record (repository_id, metadata_prefix, identifier, identifier_key, filename, datestamp,
    status, digest)
SELECT repository_id, 'v', identifier, identifier_key, './' || filename, datestamp, status, digest
FROM oai_record
"""
_METS = "http://www.loc.gov/METS/"
_SCHEMA = "http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd"


def _schema(harvested: Harvested) -> str:
    """Return the schema of the source's format, which the aggregate stores in a separate transaction."""
    with harvested.database.session() as session:
        found = Formats(session=session, store=harvested.settings.store).number(1, "v")
        session.commit()
        return session.get_one(AggregateFormat, found).schema


@pytest.fixture
def sent(harvested: Harvested) -> Harvested:
    with harvested.database.session() as session:
        for name in ("1", "2", "3"):
            harvested.write(session, name)
        session.execute(text("UPDATE oai_record SET metadata_prefix = 'v'"))
        session.commit()
    return harvested


def _replace(harvested: Harvested, name: str, *, by: str) -> None:
    file = harvested.folder / f"{name}.xml"
    file.write_bytes(file.read_bytes().replace(b'<v xmlns="urn:v"', f'<v xmlns="{by}"'.encode()))


def test_the_schema_of_a_format_is_read_from_the_first_record_that_declares_one(sent: Harvested) -> None:
    assert _schema(sent) == ""
    named = 'urn:v" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="urn:v v.xsd'
    _replace(sent, "3", by=named)
    assert _schema(sent) == "v.xsd"


def test_a_well_known_format_has_its_schema_if_no_record_declares_one(sent: Harvested) -> None:
    for name in ("1", "2", "3"):
        _replace(sent, name, by=_SLIM)
    assert _schema(sent) == _SCHEMA


def _declare(session: Session, namespace: str, *, prefix: str = "oai_dc", repository_id: int = 1) -> None:
    values = {"prefix": prefix, "namespace": namespace, "repository_id": repository_id}
    session.execute(text(_DECLARED), values)


def _write(harvested: Harvested, namespace: str, *, version: int = 0, only: str = "123") -> None:
    with harvested.database.session() as session:
        for name in only:
            harvested.write(session, name, version=version, namespace=namespace)
        session.commit()


def _of_records(harvested: Harvested) -> list[tuple[str, str, bool, int]]:
    with harvested.database.session() as session:
        return [tuple(row) for row in session.execute(text(_OF_RECORDS))]


@pytest.mark.parametrize("declared", [OAI_DC_NAMESPACE.rstrip("/"), "http://purl.org/dc/elements/1.1/"])
def test_records_in_the_namespace_of_oai_dc_are_oai_dc_whatever_their_source_declares(
    harvested: Harvested, declared: str
) -> None:
    with harvested.database.session() as session:
        _declare(session, declared)
        session.commit()
    _write(harvested, OAI_DC_NAMESPACE)
    until(lambda: harvested.update() == 3)
    assert _of_records(harvested) == [("oai_dc", OAI_DC_NAMESPACE, False, 3)]


@pytest.mark.parametrize("another", [False, True])
def test_records_that_an_earlier_version_published_as_oai_dc_stay_oai_dc(
    harvested: Harvested, *, another: bool
) -> None:
    _write(harvested, OAI_DC_NAMESPACE)
    until(lambda: harvested.update() == 3)
    declared = "http://purl.org/dc/elements/1.1/"
    with harvested.database.session() as session:
        session.execute(text("UPDATE aggregate_format SET namespace = :declared"), {"declared": declared})
        if another:
            names = {"prefix": "oai_dc.2", "harvested_prefix": "oai_dc"}
            session.add(AggregateFormat(**names, namespace=OAI_DC_NAMESPACE, schema="s"))
        session.commit()

    _write(harvested, OAI_DC_NAMESPACE, version=1, only="1")
    until(lambda: harvested.update() == 1)

    assert _of_records(harvested) == [("oai_dc", declared if another else OAI_DC_NAMESPACE, False, 3)]


def test_records_that_are_corrected_become_oai_dc_and_are_deleted_in_the_other_format(
    harvested: Harvested,
) -> None:
    with harvested.database.session() as session:
        _declare(session, _METS)
        session.commit()
    _write(harvested, _METS)
    until(lambda: harvested.update() == 3)
    assert _of_records(harvested) == [("oai_dc.2", _METS, False, 3)]
    _write(harvested, OAI_DC_NAMESPACE, version=1)
    until(lambda: harvested.update() == 6)
    corrected = [("oai_dc", OAI_DC_NAMESPACE, False, 3), ("oai_dc.2", _METS, True, 3)]
    assert _of_records(harvested) == corrected
    shutil.move(harvested.folder / "1.xml", harvested.folder / "lost")
    _write(harvested, OAI_DC_NAMESPACE, version=2, only="2")
    until(lambda: harvested.update() == 1)
    assert _of_records(harvested) == corrected


def test_another_format_of_a_corrected_record_stays(harvested: Harvested) -> None:
    _write(harvested, _METS)
    with harvested.database.session() as session:
        _declare(session, _METS)
        session.execute(text(_ALSO_AS_V))
        walk_everything(session)
        session.commit()
    until(lambda: _of_records(harvested) or harvested.update())
    assert _of_records(harvested) == [("oai_dc.2", _METS, False, 3), ("v", _METS, False, 3)]
    _write(harvested, OAI_DC_NAMESPACE, version=1)
    until(lambda: harvested.update() == 6)
    assert ("v", _METS, False, 3) in _of_records(harvested)


def test_namespaces_that_differ_only_in_a_slash_at_the_end_are_one_format(harvested: Harvested) -> None:
    with harvested.database.session() as session:
        session.execute(text("INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://p/', 'two')"))
        _declare(session, "urn:v/", prefix="v")
        _declare(session, "urn:v", prefix="v", repository_id=2)
        formats = Formats(session=session, store=harvested.settings.store)
        assert formats.number(1, "v") == formats.number(2, "v")


_SECOND = """
WITH two AS (
    INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://p/', 'one') RETURNING repository_id
)
INSERT INTO oai_record (repository_id, metadata_prefix, identifier, identifier_key, filename, datestamp,
    status, digest)
SELECT two.repository_id, metadata_prefix, identifier, identifier_key, '../one/' || filename, datestamp,
    'active', digest
FROM oai_record CROSS JOIN two
"""
_IN_V = """
UPDATE oai_record SET metadata_prefix = 'v';
UPDATE oai_change SET metadata_prefix = 'v';
UPDATE aggregate_source SET walk = NULL;
"""


def _write_in_v(harvested: Harvested, *, deleted: str = "", version: int = 0, only: str = "123") -> None:
    """Write records in MARC in the format `v`, which the source does not declare."""
    with harvested.database.session() as session:
        session.execute(text("UPDATE oai_record SET metadata_prefix = 'oai_dc'"))
        for name in only:
            harvested.write(session, name, version=version, namespace=_SLIM, deleted=name in deleted)
        session.execute(text(_IN_V))
        session.commit()


def _add_second(harvested: Harvested, namespace: str) -> None:
    """Add a source with the same records in the same prefix, with its own identifiers."""
    with harvested.database.session() as session:
        session.execute(text(_SECOND))
        _declare(session, namespace, prefix="v", repository_id=2)
        add_source(session, find_repository(session, "2"), name="two", identifiers="own")
        session.commit()


def _formats(harvested: Harvested) -> list[tuple[str, str, str]]:
    with harvested.database.session() as session:
        stored = session.execute(text("SELECT prefix, namespace, schema FROM aggregate_format ORDER BY id"))
        return [tuple(row) for row in stored]


def test_a_format_is_published_when_its_first_record_is_live(harvested: Harvested) -> None:
    _write_in_v(harvested, deleted="123")
    assert (harvested.update(), _formats(harvested)) == (0, [])
    _write_in_v(harvested, version=1, only="1")
    until(lambda: _formats(harvested) or harvested.update())
    harvested.update()
    until(lambda: harvested.update() == 0)
    assert _formats(harvested) == [("v", _SLIM, _SCHEMA)]
    assert _of_records(harvested) == [("v", _SLIM, False, 1), ("v", _SLIM, True, 2)]


def test_a_source_of_deleted_records_takes_no_prefix_from_another(harvested: Harvested) -> None:
    _write_in_v(harvested, deleted="123")
    assert harvested.update() == 0
    _add_second(harvested, _METS)
    until(lambda: harvested.update() == 3)
    _write_in_v(harvested, version=1)
    until(lambda: _formats(harvested)[1:] or harvested.update())
    assert [(prefix, namespace) for prefix, namespace, _ in _formats(harvested)] == [
        ("v", _METS),
        ("v.2", _SLIM),
    ]


def _publish_unreadable(harvested: Harvested) -> None:
    """Publish records in `v` while their folder is away."""
    _write_in_v(harvested)
    harvested.folder.rename(harvested.folder.with_name("away"))
    until(lambda: harvested.update() == 3)
    assert _formats(harvested) == [("v", "", "")]
    harvested.folder.with_name("away").rename(harvested.folder)


def test_a_format_has_its_namespace_as_soon_as_its_records_can_be_read(harvested: Harvested) -> None:
    _publish_unreadable(harvested)
    body: list[str] = []

    def listed() -> bool:
        answer = harvested.repository().answer([("verb", "ListRecords"), ("metadataPrefix", "v")])
        body[:] = [answer.body.decode()]
        return "<record>" in body[0]

    until(listed)
    assert f"<metadataNamespace>{_SLIM}</metadataNamespace>" in body[0]
    assert harvested.update() == 0
    assert _formats(harvested) == [("v", _SLIM, _SCHEMA)]


def test_another_source_shares_the_format_of_unreadable_records(harvested: Harvested) -> None:
    _publish_unreadable(harvested)
    shutil.move(harvested.folder, harvested.folder.with_name("away"))
    _add_second(harvested, _SLIM)
    until(lambda: harvested.update() == 3)
    assert _of_records(harvested) == [("v", _SLIM, False, 6)]


def test_unreadable_records_share_the_only_format_of_their_prefix(harvested: Harvested) -> None:
    with harvested.database.session() as session:
        session.add(AggregateFormat(prefix="v", harvested_prefix="v", namespace=_SLIM, schema="s"))
        session.commit()
    _write_in_v(harvested)
    shutil.move(harvested.folder, harvested.folder.with_name("away"))
    until(lambda: harvested.update() == 3)
    assert _formats(harvested) == [("v", _SLIM, "s")]


@pytest.mark.parametrize("readable", [False, True])
def test_a_format_that_an_earlier_version_left_unknown_gives_way_to_the_known_one(
    harvested: Harvested, *, readable: bool
) -> None:
    _publish_unreadable(harvested)
    with harvested.database.session() as session:
        session.add(AggregateFormat(prefix="v.2", harvested_prefix="v", namespace=_SLIM, schema="s"))
        session.commit()
    if not readable:
        shutil.move(harvested.folder, harvested.folder.with_name("away"))
    with harvested.database.session() as session:
        walk_everything(session)
        session.commit()
    until(lambda: harvested.update() == (6 if readable else 0))
    moved = [("v", "", True, 3), ("v.2", _SLIM, False, 3)]
    assert _of_records(harvested) == (moved if readable else [("v", "", False, 3)])


def test_records_without_a_namespace_share_no_format_with_others(harvested: Harvested) -> None:
    _write_in_v(harvested)
    for name in ("1", "2", "3"):
        file = harvested.folder / f"{name}.xml"
        file.write_bytes(file.read_bytes().replace(f'<v xmlns="{_SLIM}"'.encode(), b'<v xmlns=""'))
    until(lambda: harvested.update() == 3)
    _add_second(harvested, _SLIM)
    until(lambda: harvested.update() == 3)
    assert _of_records(harvested) == [("v", "", False, 3), ("v.2", _SLIM, False, 3)]
