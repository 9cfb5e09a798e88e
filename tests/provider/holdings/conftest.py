"""Fixtures of the holdings tests: four documents, three collections, and the changes that staff make."""

from pathlib import Path

import pytest

from oai.database import Database
from tests.provider.holdings.staff import Staff, index


@pytest.fixture
def staff(database: Database, tmp_path: Path) -> Staff:
    """Four documents, a to d, and the collections x, x:y and z."""
    index(database, tmp_path, "abcd")
    staff = Staff(database)
    staff.make("x:y", "z")
    return staff
