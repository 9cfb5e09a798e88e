"""The record files of one repository, each written completely and durably or not at all."""

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
"""From this number of files on, a separate process is faster."""


class FileStore:
    """Files below a base directory. Paths are relative to it, with `/`.

    `missing`, `begin` and `settle` use one background thread, which does their work in the order of the
    calls. `write_all` and `remove_all` work in the calling thread; do not mix them with unsettled work.
    """

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
        """Look for the paths at which there is no file, while the caller continues."""
        if paths:
            return self._thread.submit(self._missing, paths)
        # An empty result need not wait for files that are being written.
        none: Future[Sequence[str]] = Future()
        none.set_result(())
        return none

    def read(self, path: str) -> bytes | None:
        """Return the file's bytes; None if it does not exist."""
        try:
            return Path(f"{self._base}/{path}").read_bytes()
        except FileNotFoundError:
            return None

    def begin(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str] = ()) -> None:
        """Start writing these files and then removing those in `leaving`.

        Meanwhile the rows can be sent to the database. Settle before committing them. Raises the error of an
        earlier call, if that failed.
        """
        self._wait()
        if files or leaving:
            self._begun = self._thread.submit(self._begin, files, leaving)

    def settle(self) -> None:
        """Wait until everything started is durable; raise the error if it failed."""
        self._wait()
        self._thread.submit(self._settle).result()

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write the files as `Disk.write_all` does."""
        self._disk.write_all(files)

    def remove_all(self, paths: Sequence[str]) -> None:
        """Remove the files as `Disk.remove_all` does."""
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
        """Return the worker for this number of files; work started by one is never repeated by the other."""
        if self._process is None and number >= _WORTH_A_PROCESS:
            # Settled first, because the process knows only the files that it has started itself.
            self._disk.settle()
            self._process = DiskProcess(self._base)
        return self._process or self._disk


_OAI = f"{{{OAI_NAMESPACE}}}"


def read_header(data: bytes, *, source: str) -> Header:
    """Return the header from a record file's bytes.

    Without a datestamp, as some repositories send records, it is `undated`. Raises MalformedXmlError if they
    are not XML, ValueError if they are not a record with an identifier; both name `source`.
    """
    return _header(parse(data, source=source), source)


def marked_deleted(data: bytes, *, datestamp: str, source: str) -> bytes:
    """Return the record's bytes with a header that has `status="deleted"` and `datestamp`; the rest stays.

    Repeating it gives the same bytes. Raises as `read_header` does.
    """
    root = parse(data, source=source)
    _header(root, source)
    header = required(root.find(_OAI + "header"), "`_header` has read it")
    header.set("status", "deleted")
    dates = list(header.iterchildren(_OAI + "datestamp"))
    if not dates:
        dates = [etree.Element(_OAI + "datestamp")]
        required(header.find(_OAI + "identifier"), "`_header` has read it").addnext(dates[0])
    for child in dates:
        child.text = datestamp
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _header(root: etree._Element, source: str) -> Header:
    header = root.find(_OAI + "header") if root.tag == _OAI + "record" else None
    if header is None:
        raise ValueError(f"{source}: the root is {root.tag!r}, not a record with a header")
    identifier = (header.findtext(_OAI + "identifier") or "").strip()
    datestamp = (header.findtext(_OAI + "datestamp") or "").strip()
    if not identifier:
        raise ValueError(f"{source}: the header has no identifier")
    specs = ((child.text or "").strip() for child in header.iterchildren(_OAI + "setSpec"))
    return Header(
        identifier=identifier,
        datestamp=datestamp,
        set_specs=tuple(spec for spec in specs if spec),
        deleted=header.get("status") == "deleted",
        undated=not datestamp,
    )
