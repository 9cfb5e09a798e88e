"""Writes an export as one WARC file, which need not be seekable."""

import shutil
from typing import BinaryIO, Final

from provider.export.captures import ExportedCapture
from provider.export.manifest import Manifest
from provider.export.warc_records import compressed, information, other_header, spooled

MANIFEST_URI: Final = "urn:zatva:manifest"
_BUFFER: Final = 1024**2


class WarcFile:
    """Receives captures; the manifest is the last record, of type `metadata`."""

    def __init__(self, file: BinaryIO, manifest: Manifest) -> None:
        self._file = file
        self._manifest = manifest
        self._begun = False

    def add(self, capture: ExportedCapture) -> int:
        """Write the capture; return the bytes written."""
        self._begin()
        shutil.copyfileobj(capture.record, self._file, _BUFFER)
        return capture.length

    def finish(self) -> None:
        """Write the manifest."""
        self._begin()
        text, length = spooled(self._manifest.pieces(), self._manifest.folder)
        with text:
            header = other_header("metadata", length, kind="application/json", target=MANIFEST_URI)
            self._file.writelines(compressed(header, iter(lambda: text.read(_BUFFER), b"")))

    def _begin(self) -> None:
        if not self._begun:
            self._file.writelines(information(self._manifest.facts.selection))
        self._begun = True
