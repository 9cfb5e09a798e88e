"""The formats of the aggregate, and the addresses of their schemas."""

import pytest
from sqlalchemy import text

from provider.aggregate.formats import Formats
from provider.aggregate.models import AggregateFormat
from tests.provider.aggregate.harvested_rows import Harvested

_SLIM = "http://www.loc.gov/MARC21/slim"
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
