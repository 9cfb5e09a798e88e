"""Exports: a stream with every record once."""

import io
import json
import os
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harvester.store.export import LISTING, Exported, Form, export
from harvester.store.records import RunKey
from tests.harvester.fake_repository import Item, many
from tests.harvester.library import Library


class _Pipe(io.RawIOBase):
    """Accepts bytes and cannot seek, like a pipe."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.data += data
        return len(data)


def exported(library: Library, form: Form, run: RunKey | None = None) -> tuple[Exported, io.BytesIO]:
    pipe = _Pipe()
    with library.database.session() as session:
        result = export(
            session,
            pipe,  # type: ignore[arg-type]  # a RawIOBase has what a BinaryIO needs here
            form,
            repository_id=library.repository_id,
            folder=library.folder,
            run=run,
        )
    return result, io.BytesIO(pipe.data)


def listing(lines: bytes) -> dict[str, dict[str, Any]]:
    return {found["identifier"]: found for found in map(json.loads, lines.splitlines())}


async def test_tar_and_zip_have_every_file_and_a_listing_that_includes_deletions(
    library: Library,
) -> None:
    library.fake.items += [Item(identifier="oai:a:1", sets=("x",)), Item(identifier="oai:a:2", deleted=True)]
    await library.run()
    files = library.files()
    result, out = exported(library, Form.TAR)
    with tarfile.open(fileobj=out) as tar:
        contents = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    listed = listing(contents.pop(LISTING))
    assert contents == files
    assert (result.records, result.files, result.missing) == (27, 26, 0)
    assert (listed["oai:a:1"]["sets"], listed["oai:a:1"]["file"]) == (["x"], "a/1.xml")
    assert (listed["oai:a:2"]["status"], listed["oai:a:2"]["file"]) == ("deleted", None)
    _, out = exported(library, Form.ZIP)
    with zipfile.ZipFile(out) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert listing(contents.pop(LISTING)) == listed
    assert contents == files


async def test_json_lines_have_the_xml(library: Library) -> None:
    await library.run()
    _, out = exported(library, Form.JSONL)
    lines = listing(out.getvalue())
    assert {line["file"]: line["xml"].encode() for line in lines.values()} == library.files()


@pytest.mark.parametrize("damage", ["gone", "altered"])
async def test_an_altered_file_is_counted_and_left_out(library: Library, damage: str) -> None:
    await library.run()
    path = library.folder / "fake.example/3.xml"
    path.unlink() if damage == "gone" else path.write_bytes(b"<r/>")
    result, out = exported(library, Form.JSONL)
    assert (result.records, result.files, result.missing) == (25, 24, 1)
    assert listing(out.getvalue())["oai:fake.example:3"]["xml"] is None


async def test_the_export_of_a_run_has_what_it_changed(library: Library, tmp_path: Path) -> None:
    await library.run()
    library.fake.items[4] = Item(
        identifier="oai:fake.example:4", title="Newer", datestamp="2024-06-02T00:00:00Z"
    )
    library.fake.items += many(1, start=77)
    library.delete(9)
    await library.run(full=True)
    out = tmp_path / "run.jsonl"
    code, _, _ = await library.command("store", "export", "--run", "2", "--as", "jsonl", "--out", str(out))
    assert code == 0
    found = {name: line["change"] for name, line in listing(library.read(out)).items()}
    assert found == {
        "oai:fake.example:4": "updated",
        "oai:fake.example:77": "new",
        "oai:fake.example:9": "deleted",
    }
    assert not library.exists(Path(f"{out}~part"))


async def test_the_export_of_a_run_whose_changes_are_no_longer_kept_is_rejected(library: Library) -> None:
    await library.run()
    library.change_settings(keep_changes=0)
    await library.run()
    code, out, err = await library.command("store", "export", "--run", "1", "--as", "tar")
    assert (code, out) == (2, "")
    assert "the changes of run 1 are no longer kept" in err


async def test_an_export_to_a_pipe_does_not_replace_the_pipe(library: Library) -> None:
    await library.run()
    pipe = library.folder.parent / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as threads:
        read = threads.submit(pipe.read_bytes)
        code, _, _ = await library.command("store", "export", "1", "--as", "jsonl", "--out", str(pipe))
        assert code == 0
        assert pipe.is_fifo()
        assert len(listing(read.result(timeout=60))) == 25
