"""The commands index a bucket in several processes, and verify it."""

import hashlib
import io
import tarfile
import uuid
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import Record
from harvester.repositories import add_repository
from oai.database import Database
from provider.models import Document
from tests.commands import results, zatva
from tests.provider.archives import Page, write_pages
from tests.provider.storage.object_store import BUCKET, ObjectStore


def _fill(store: ObjectStore, folder: Path, count: int) -> None:
    for number in range(count):
        page = Page(url=f"http://{number}.example/")
        store.put(f"cli/{number}.warc.gz", write_pages(folder / "x.warc.gz", [page]).read_bytes())


def test_a_bucket_is_indexed_by_several_processes_and_verified(
    database: Database, environment: dict[str, str], store: ObjectStore, tmp_path: Path
) -> None:
    _fill(store, tmp_path, 4)
    known = {**environment, **store.environment()}
    *files, total = results(known, "provider", "index", f"s3://{BUCKET}/cli/", "--jobs", "2")
    assert ([file["new"] for file in files], total["total"]["problems"]) == ([1, 1, 1, 1], 0)
    *_, checked = results(known, "provider", "verify")
    assert (checked["total"]["documents"], checked["total"]["missing"]) == (4, 0)

    store.delete("cli/2.warc.gz")
    found = results(known, "provider", "verify", expect=3)
    assert [one["fault"] for one in found if "fault" in one] == ["missing"]
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(Document)) == 4


def test_a_store_is_exported_to_a_bucket(
    environment: dict[str, str], store: ObjectStore, database: Database, tmp_path: Path
) -> None:
    known = {**environment, **store.environment()}
    with database.session() as session:
        repository = add_repository(
            session, base_url="http://127.0.0.1:1/oai", base_dir=str(tmp_path / "files")
        )
        _record(session, repository.repository_id, tmp_path / "files" / "1.xml")
        session.commit()
    (answer,) = results(known, "store", "export", "1", "--as", "tar", "--out", f"s3://{BUCKET}/out/store.tar")
    assert (answer["files"], answer["out"]) == (1, f"s3://{BUCKET}/out/store.tar")
    with tarfile.open(fileobj=io.BytesIO(store.get("out/store.tar"))) as tar:
        assert [Path(name).name for name in tar.getnames() if name.endswith(".xml")] == ["1.xml"]

    denied = {**known, "AWS_SECRET_ACCESS_KEY": "wrong"}
    refused = zatva(denied, "store", "export", "1", "--as", "tar", "--out", f"s3://{BUCKET}/out/other.tar")
    assert (refused.returncode, "check the credentials" in refused.stderr) == (4, True), refused.stderr
    for url, expected in (
        ("s3://bucket", "as s3://BUCKET/KEY"),
        ("s3://key:secret@bucket/x", "credentials do not belong"),
        ("s3://bucket/x/", "as s3://BUCKET/KEY"),
        ("s3://bucket//x", "an empty segment"),
    ):
        badly = zatva(known, "store", "export", "1", "--as", "tar", "--out", url)
        assert (badly.returncode, expected in badly.stderr) == (2, True), badly.stderr
        assert "secret" not in badly.stderr


def _record(session: Session, repository_id: int, file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"<record/>")
    session.add(
        Record(
            repository_id=repository_id, identifier="oai:a.example:1", identifier_key=uuid.uuid4(),
            datestamp="2026-01-01", metadata_prefix="oai_dc", filename=file.name,
            digest=hashlib.sha256(b"<record/>").digest(),
        )
    )  # fmt: skip


def test_unreachable_and_empty_prefixes_are_reported_with_the_exit_code(
    environment: dict[str, str], store: ObjectStore
) -> None:
    known = {**environment, **store.environment()}
    nothing = zatva(known, "provider", "index", f"s3://{BUCKET}/empty/")
    assert (nothing.returncode, "no objects with this prefix" in nothing.stderr) == (2, True)
    secret = zatva(known, "provider", "index", "s3://key:secret@bucket/x")
    assert (secret.returncode, "credentials do not belong" in secret.stderr) == (2, True)
    wrong = zatva({**known, "AWS_SECRET_ACCESS_KEY": "wrong"}, "provider", "index", f"s3://{BUCKET}/cli/")
    assert (wrong.returncode, "check the credentials" in wrong.stderr) == (4, True), wrong.stderr
