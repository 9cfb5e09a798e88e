"""Exported tables: no text that others choose becomes a formula in the spreadsheet that opens them."""

import csv
import io

import pytest
from sqlalchemy import update

from harvester.bibliographic.models import ContributorRow
from tests.web.conftest import Browser, Server
from tests.web.rows import a_bibliographic_record, a_repository

FORMULA = "HYPERLINK(1)"
SIGNS = ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]


@pytest.mark.parametrize("sign", SIGNS)
async def test_no_exported_cell_begins_like_a_formula(
    server: Server, administrator: Browser, sign: str
) -> None:
    with server.database.session() as session:
        a_bibliographic_record(
            session, a_repository(session), title=f"{sign}{FORMULA}", languages=[f"{sign}x", "cze"]
        )
        session.execute(update(ContributorRow).values(name=f"{sign}{FORMULA}"))
        session.commit()

    status, exported = await administrator.get("/records.csv")

    assert status == 200
    (row,) = csv.DictReader(io.StringIO(exported, newline=""))
    assert FORMULA in row["title"]
    assert FORMULA in row["contributors"]
    assert not [value for value in row.values() if value.startswith(tuple(SIGNS))]
