"""Whether a record is new, updated or unchanged, given its row."""

import pytest

from harvester.harvest.page_writer import effect_of
from harvester.harvest.transform import Prepared
from harvester.reading.answers import Header
from harvester.store.records import KnownRecord

KNOWN = KnownRecord(record_id=1, filename="a.xml", digest=b"1", status="active", datestamp="2024-05-02")


def prepared(datestamp: str = "2024-05-02", digest: bytes | None = b"1") -> Prepared:
    header = Header(identifier="a", datestamp=datestamp, deleted=digest is None)
    return Prepared(header=header, key="00", data=digest, digest=digest)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (None, "new"),
        (KNOWN._replace(filename=None), "new"),
        (KNOWN._replace(status="deleted"), "new"),
        (KNOWN, "unchanged"),
        (KNOWN._replace(digest=b"0"), "updated"),
        (KNOWN._replace(digest=b"2"), "updated"),
    ],
)
def test_a_record_is_new_updated_or_unchanged(known: KnownRecord | None, expected: str) -> None:
    assert effect_of(prepared(), known) == expected


@pytest.mark.parametrize(
    ("datestamp", "expected"),
    [("2024-05-01", "tombstones"), ("2024-05-02", "unchanged"), ("2024-05-03", "tombstones")],
)
def test_a_deleted_record_is_unchanged_if_its_datestamp_is(datestamp: str, expected: str) -> None:
    gone = prepared(datestamp, digest=None)
    assert effect_of(gone, None) == "tombstones"
    assert effect_of(gone, KNOWN) == "deleted"
    assert effect_of(gone, KNOWN._replace(status="deleted")) == expected
