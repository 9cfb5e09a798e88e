"""The record files of one repository: written whole and durable, or not at all."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from lxml import etree

from harvester.reading.answers import Header
from harvester.store.atomic_files import Disk
from harvester.store.disk_process import DiskProcess
from oai.errors import required
from oai.vocabulary import OAI_NAMESPACE
from oai.xml import parse

_WORTH_A_PROCESS = 200
"""Files at a time from which on a process of its own has them done sooner."""


class FileStore:
    """Files below a base directory. Paths are relative to it, with `/`."""

    def __init__(self, base: Path) -> None:
        self._base = os.fspath(base)
        self._disk = Disk(self._base)
        self._process: DiskProcess | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="files")
        self._begun: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.settle()
        finally:
            if self._process is not None:
                self._thread.submit(self._process.close)
            self._thread.shutdown()
            self._disk.close()

    def missing(self, paths: Sequence[str]) -> "Future[Sequence[str]]":
        """Those of the paths at which there is no file; they are looked for while the caller goes on."""
        if paths:
            return self._thread.submit(self._missing, paths)
        # Not to be waited for behind what is being written.
        none: Future[Sequence[str]] = Future()
        none.set_result(())
        return none

    def read(self, path: str) -> bytes | None:
        """The file's bytes; None where it is not there."""
        try:
            return Path(f"{self._base}/{path}").read_bytes()
        except FileNotFoundError:
            return None

    def begin(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str] = ()) -> None:
        """Begin to write these files and then to remove those.

        So the rows can go to the database meanwhile. Settle before they are committed. Raises what failed of
        what was begun before.
        """
        self._wait()
        if files or leaving:
            self._begun = self._thread.submit(self._begin, files, leaving)

    def settle(self) -> None:
        """Wait until what was begun is durable; raises what failed of it."""
        self._wait()
        self._thread.submit(self._settle).result()

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """As `Disk.write_all`."""
        self._disk.write_all(files)

    def remove_all(self, paths: Sequence[str]) -> None:
        """As `Disk.remove_all`."""
        self._disk.remove_all(paths)

    def _wait(self) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.result()

    def _missing(self, paths: Sequence[str]) -> Sequence[str]:
        return self._worker(len(paths)).missing(paths)

    def _begin(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str]) -> None:
        self._worker(len(files)).begin(files, leaving)

    def _settle(self) -> None:
        self._worker(0).settle()

    def _worker(self, number: int) -> Disk | DiskProcess:
        """Who does work on so many files: what was begun by one is not begun again by another."""
        if self._process is None and number >= _WORTH_A_PROCESS:
            self._disk.settle()
            self._process = DiskProcess(self._base)
        return self._process or self._disk


_OAI = f"{{{OAI_NAMESPACE}}}"


def read_header(data: bytes, *, source: str) -> Header:
    """The header in a record file's bytes.

    Raises MalformedXmlError where they are no XML, ValueError where they are no record with identifier and
    datestamp; both name `source`.
    """
    return _header(parse(data, source=source), source)


def marked_deleted(data: bytes, *, datestamp: str, source: str) -> bytes:
    """The record's bytes with a header that says `status="deleted"` since `datestamp`; the rest stays.

    Marking again gives the same bytes. Raises as `read_header` does.
    """
    root = parse(data, source=source)
    _header(root, source)
    header = required(root.find(_OAI + "header"), "`_header` has read it")
    header.set("status", "deleted")
    for child in header.iterchildren(_OAI + "datestamp"):
        child.text = datestamp
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _header(root: etree._Element, source: str) -> Header:
    header = root.find(_OAI + "header") if root.tag == _OAI + "record" else None
    if header is None:
        raise ValueError(f"{source}: the root is {root.tag!r}, not a record with a header")
    identifier = (header.findtext(_OAI + "identifier") or "").strip()
    datestamp = (header.findtext(_OAI + "datestamp") or "").strip()
    if not identifier or not datestamp:
        raise ValueError(f"{source}: the header has no {'datestamp' if identifier else 'identifier'}")
    specs = ((child.text or "").strip() for child in header.iterchildren(_OAI + "setSpec"))
    return Header(
        identifier=identifier,
        datestamp=datestamp,
        set_specs=tuple(spec for spec in specs if spec),
        deleted=header.get("status") == "deleted",
    )
