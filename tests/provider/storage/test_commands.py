"""The commands index a bucket in several processes, and verify it."""

from pathlib import Path

from sqlalchemy import func, select

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


def test_what_cannot_be_reached_or_read_is_told(environment: dict[str, str], store: ObjectStore) -> None:
    known = {**environment, **store.environment()}
    nothing = zatva(known, "provider", "index", f"s3://{BUCKET}/empty/")
    assert (nothing.returncode, "no objects with this prefix" in nothing.stderr) == (2, True)
    secret = zatva(known, "provider", "index", "s3://key:secret@bucket/x")
    assert (secret.returncode, "credentials do not belong" in secret.stderr) == (2, True)
    wrong = zatva({**known, "AWS_SECRET_ACCESS_KEY": "wrong"}, "provider", "index", f"s3://{BUCKET}/cli/")
    assert (wrong.returncode, "check the credentials" in wrong.stderr) == (4, True), wrong.stderr
