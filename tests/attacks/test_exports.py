"""Exported tables: text from outside does not become a formula in a spreadsheet."""

import csv
import io

from sqlalchemy import update

from harvester.bibliographic.models import ContributorRow
from tests.web.conftest import Browser, Server
from tests.web.rows import a_bibliographic_record, a_repository

FORMULA = "HYPERLINK(1)"
SIGNS = ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"]


async def test_no_exported_cell_begins_with_the_sign_of_a_formula(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        repository = a_repository(session)
        for sign in SIGNS:
            a_bibliographic_record(
                session, repository, title=f"{sign}{FORMULA}", languages=[f"{sign}x", "cze"]
            )
            others = ~ContributorRow.name.contains(FORMULA)
            session.execute(update(ContributorRow).where(others).values(name=f"{sign}{FORMULA}"))
        session.commit()

    status, exported = await administrator.get("/records.csv")

    assert status == 200
    rows = list(csv.DictReader(io.StringIO(exported, newline="")))
    assert len(rows) == len(SIGNS)
    assert all(FORMULA in row[column] for row in rows for column in ("title", "contributors"))
    assert not [value for row in rows for value in row.values() if value.startswith(tuple(SIGNS))]
