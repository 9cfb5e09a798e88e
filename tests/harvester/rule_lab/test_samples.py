"""Stored records for trying rules: by default of the most common format, found without counting all."""

from pathlib import Path

import pytest
from sqlalchemy import text

from harvester.repositories import add_repository
from harvester.rule_lab.samples import StoredFile, read_files, stored_files
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from tests.plans import work_of

_FILL = text(
    """
    INSERT INTO oai_record
        (repository_id, identifier, identifier_key, datestamp, metadata_prefix, filename, status)
    SELECT 1, prefix || at, CAST(md5(CAST(at AS text)) AS uuid), '2024-01-01', prefix, prefix || '/' || at,
        status
    FROM unnest(CAST(:prefixes AS text[]), CAST(:counts AS integer[]), CAST(:states AS text[]))
        AS format (prefix, most, status), generate_series(1, most) AS at
    """
)


@pytest.mark.parametrize(
    ("counts", "commonest"),
    [
        ({"marc21": (3, "active")}, "marc21"),
        ({"marc21": (3, "active"), "oai_dc": (5, "active")}, "oai_dc"),
        ({"marc21": (5, "active"), "oai_dc": (5, "active")}, "marc21"),
        ({"marc21": (3, "active"), "oai_dc": (9, "deleted")}, "marc21"),
        ({"marc21": (1200, "active"), "oai_dc": (2400, "active")}, "oai_dc"),
        ({"marc21": (2400, "active"), "oai_dc": (1200, "active")}, "marc21"),
    ],
)
def test_by_default_samples_are_records_of_the_most_common_format(
    database: Database, settings: Settings, counts: dict[str, tuple[int, str]], commonest: str
) -> None:
    with database.session() as session:
        add_repository(session, base_url="http://a.example/oai")
        session.execute(
            _FILL,
            {
                "prefixes": list(counts),
                "counts": [most for most, _ in counts.values()],
                "states": [state for _, state in counts.values()],
            },
        )
        files = stored_files(session, settings, 1, most=5)
    assert {file.path.parent.name for file in files} == {commonest}


def test_a_repository_without_stored_records_has_no_samples(database: Database, settings: Settings) -> None:
    with database.session() as session:
        add_repository(session, base_url="http://a.example/oai")
        with pytest.raises(UsageError, match="no stored records"):
            stored_files(session, settings, 1)


def test_the_most_common_format_is_found_without_reading_all_records(
    database: Database, settings: Settings
) -> None:
    with database.session() as session:
        add_repository(session, base_url="http://a.example/oai")
        formats = {"prefixes": ["marc21", "oai_dc"], "counts": [4000, 5000], "states": ["active"] * 2}
        session.execute(_FILL, formats)
        session.execute(text("ANALYZE oai_record"))
        with work_of(database, "oai_record") as work:
            assert len(stored_files(session, settings, 1, most=5)) == 5
    assert sum(work) < 9000


@pytest.mark.parametrize(("most", "read"), [(5, 1), (20, 2), (30, 3)])
def test_samples_end_before_a_number_of_bytes_but_have_at_least_one_record(
    tmp_path: Path, most: int, read: int
) -> None:
    files = [StoredFile(path=tmp_path / name, digest=None) for name in "abc"]
    for file in files:
        file.path.write_bytes(b"<record/> ")
    samples = read_files(files, most_bytes=most)
    assert samples.records == [b"<record/> "] * read
    assert len(samples.unreadable) == (read < len(files))
