"""Files of deleted records, including repeated handling."""

from pathlib import Path

import pytest

from harvester.repositories import add_repository
from harvester.store.deletions import DeletedFile, Left, part_with
from harvester.store.files import FileStore, marked_deleted, read_header
from harvester.vocabulary import DeletionPolicy
from oai.database import Database
from oai.errors import MalformedXmlError

RECORD = (
    b"<record xmlns='http://www.openarchives.org/OAI/2.0/'><header><identifier> oai:a:1 </identifier>"
    b"<datestamp>2024-01-01</datestamp><setSpec>x</setSpec></header>"
    b"<metadata><m xmlns=''>\xc4\x8d</m></metadata>"
    b"</record>"
)


def test_a_header_is_read_as_received() -> None:
    header = read_header(RECORD, source="a/1.xml")
    assert (header.identifier, header.datestamp, header.set_specs, header.deleted) == (
        "oai:a:1", "2024-01-01", ("x",), False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<r/>", "a/1.xml: the root is 'r', not a record with a header"),
        (RECORD.replace(b" oai:a:1 ", b" "), "a/1.xml: the header has no identifier"),
        (b"<!DOCTYPE r><r/>", "a/1.xml, line 1, column 0: a document type declaration"),
        (b"half", "a/1.xml, line 1, column 1: "),
    ],
)
def test_a_file_that_is_not_a_record_is_rejected_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises((MalformedXmlError, ValueError), match=reason.replace("(", r"\(").partition(",")[0]):
        read_header(data, source="a/1.xml")


def test_a_record_without_a_datestamp_is_marked_with_that_of_its_deletion() -> None:
    without = RECORD.replace(b"<datestamp>2024-01-01</datestamp>", b"")
    assert read_header(without, source="a/1.xml").undated
    marked = read_header(marked_deleted(without, datestamp="2024-02-02", source="a/1.xml"), source="a/1.xml")
    assert (marked.datestamp, marked.undated, marked.deleted) == ("2024-02-02", False, True)


def test_marking_twice_results_in_the_same_bytes_and_keeps_the_metadata() -> None:
    once = marked_deleted(RECORD, datestamp="2024-02-02", source="a/1.xml")
    assert marked_deleted(once, datestamp="2024-02-02", source="a/1.xml") == once
    header = read_header(once, source="a/1.xml")
    assert (header.deleted, header.datestamp, header.set_specs) == (True, "2024-02-02", ("x",))
    assert '<m xmlns="">č</m>'.encode() in once


@pytest.mark.parametrize("policy", list(DeletionPolicy))
def test_handling_deleted_files_again_after_rows_were_lost_has_the_same_result(
    database: Database, tmp_path: Path, policy: DeletionPolicy
) -> None:
    files = [
        DeletedFile(filename="a/1.xml", datestamp="2024-02-02"),
        DeletedFile(filename="a/broken.xml", datestamp="2024-02-02"),
        DeletedFile(filename="a/gone.xml", datestamp="2024-02-02"),
        DeletedFile(filename=None, datestamp="2024-02-02"),
    ]
    results: list[list[Left]] = []
    contents: list[dict[str, bytes]] = []
    with database.session() as session, FileStore(tmp_path) as store:
        added = add_repository(session, base_url="http://a.example/oai", base_dir="a")
        store.write_all([("a/1.xml", RECORD), ("a/broken.xml", b"not a record")])
        for _ in range(2):
            left = part_with(session, store, files, policy=policy, repository_id=added.repository_id)
            results.append(left)
            found = (path for path in tmp_path.rglob("*") if path.is_file())
            contents.append({path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in found})
    assert results[0] == results[1]
    assert contents[0] == contents[1]
    expected = {
        DeletionPolicy.REMOVE: set(),
        DeletionPolicy.MARK: {"a/1.xml", "a/broken.xml"},
        DeletionPolicy.MOVE: {"++deleted/a/1.xml", "++deleted/a/broken.xml"},
    }[policy]
    assert set(contents[0]) == expected
    assert {name for name, _ in results[0]} == expected | {None}


def test_every_file_of_a_deleted_record_is_moved_whatever_its_name_begins_with(
    database: Database, tmp_path: Path
) -> None:
    names = ["%C3%A1/1.xml", "-/1.xml", "a/1.xml"]
    files = [DeletedFile(filename=name, datestamp="2024-02-02") for name in names]
    with database.session() as session, FileStore(tmp_path) as store:
        added = add_repository(session, base_url="http://a.example/oai", base_dir="a")
        store.write_all([(name, RECORD) for name in names])
        part_with(session, store, files, policy=DeletionPolicy.MOVE, repository_id=added.repository_id)
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {f"++deleted/{name}" for name in names}
