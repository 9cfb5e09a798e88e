"""Prefixes of object stores are browsed and selected like folders; objects outside are not accessible."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from oai.database import Database
from oai.errors import UsageError
from oai.sections.provider import ProviderSettings
from provider.indexing.browsing import FileKnown, changed_files, find_files, list_folder
from provider.indexing.indexer import IndexOptions, index_file
from provider.storage.places import place_given
from tests.provider.archives import Page, write_pages
from tests.provider.storage.object_store import BUCKET, ObjectStore

_ROOT = f"s3://{BUCKET}/browsed/"


@pytest.fixture
def root(database: Database, store: ObjectStore, tmp_path: Path) -> str:
    """A prefix with an indexed, a replaced and a new object, one below, one unfinished; others outside."""
    content = _archive(tmp_path, "a")
    for name in ("done", "changed"):
        index_file(
            database, place_given(store.put(f"browsed/{name}.warc.gz", content)), IndexOptions(margin=1)
        )
    store.put("browsed/changed.warc.gz", _archive(tmp_path, "b"))
    for name in ("browsed/new.warc.gz", "browsed/2026/below.warc.gz", "browsed-not/x.warc.gz", "y.warc.gz"):
        store.put(name, content)
    store.put("browsed/crawl.warc.gz.open", b"x")
    store.put("browsed/notes.txt", b"x")
    return _ROOT


def _archive(folder: Path, name: str) -> bytes:
    return write_pages(folder / "x.warc.gz", [Page(url=f"http://a.example/{name}")]).read_bytes()


def test_a_prefix_is_listed_with_the_state_of_each_object_in_the_index(
    database: Database, root: str, store: ObjectStore
) -> None:
    store.faults.asked.clear()
    with database.session() as session:
        shown = list_folder(session, [root], root)
        below = list_folder(session, [root], f"{root}2026/")
    assert [(one.name, one.is_folder, one.known) for one in shown.entries] == [
        ("2026", True, None),
        ("changed.warc.gz", False, FileKnown.CHANGED),
        ("crawl.warc.gz.open", False, None),
        ("done.warc.gz", False, FileKnown.INDEXED),
        ("new.warc.gz", False, FileKnown.NEW),
    ]
    assert (shown.above, below.path, below.above) == (None, f"{root}2026/", root)
    assert len(store.faults.asked) == 4, "two requests list a prefix, without one for each object"


def test_new_and_changed_objects_below_a_prefix_are_found(database: Database, root: str) -> None:
    found = find_files([root], [root])
    with database.session() as session:
        changed = changed_files(session, found)
    names = ["2026/below", "changed", "done", "new"]
    assert list(map(str, found)) == [f"{root}{name}.warc.gz" for name in names]
    assert list(map(str, changed)) == [f"{root}{name}.warc.gz" for name in names if name != "done"]
    assert find_files([root], [f"{root}new.warc.gz"]) == [place_given(f"{root}new.warc.gz")]


def test_paths_outside_the_configured_prefixes_are_refused(database: Database, root: str) -> None:
    for path in (f"s3://{BUCKET}/", f"s3://{BUCKET}/browsed-not/", f"{_ROOT}../", "s3://other/", "/etc"):
        with database.session() as session, pytest.raises(UsageError, match=r"is not below|not valid"):
            list_folder(session, [root], path)
        with pytest.raises(UsageError, match=r"is not below|not valid"):
            find_files([root], [path])


def test_a_store_that_refuses_access_is_reported(database: Database, root: str, store: ObjectStore) -> None:
    store.faults.status = 403
    with database.session() as session, pytest.raises(UsageError, match=r"cannot be read: .*access denied"):
        list_folder(session, [root], root)
    with pytest.raises(UsageError, match=r"cannot be read: .*access denied"):
        find_files([root], [root])


@pytest.mark.parametrize(
    ("given", "root"),
    [("/archive", "/archive"), ("s3://b/p", "s3://b/p/"), ("s3://b/p/", "s3://b/p/"), ("s3://b", "s3://b/")],
)
def test_roots_are_folders_and_prefixes(given: str, root: str) -> None:
    assert ProviderSettings(index_roots=(given,)).index_roots == (root,)


@pytest.mark.parametrize("given", ["https://files.example/", "s3://", "s3://key:secret@b/"])
def test_roots_that_cannot_be_listed_are_refused(given: str) -> None:
    with pytest.raises(ValidationError, match=r"cannot be listed|names no bucket|credentials do not belong"):
        ProviderSettings(index_roots=(given,))
