"""Writes the captures of an export to a WARC or WACZ file, and to its manifest."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import BinaryIO, Final, Protocol

from oai.datestamps import utc_now
from oai.sections import ProviderSettings
from provider.export.captures import ExportedCapture, LeftOut
from provider.export.manifest import ExportFacts, Manifest
from provider.export.models import ExportForm
from provider.export.selection import ExportChoice
from provider.export.wacz_file import WaczFile
from provider.export.warc_records import compressed, information, other_header, spooled

_MANIFEST_URI: Final = "urn:zatva:manifest"
_BUFFER: Final = 1024**2
_READERS: Final = {False: "an anonymous reader", True: "a reader in the reading room"}


class Output(Protocol):
    """What captures are written to."""

    def add(self, capture: ExportedCapture) -> int:
        """Write a capture; return the bytes written."""

    def finish(self) -> None:
        """Write what comes after the captures."""


def facts_of(
    choice: ExportChoice,
    settings: ProviderSettings,
    *,
    title: str,
    reading_room: bool,
    without_captures: Sequence[str],
) -> ExportFacts:
    """Return what the manifest says about the export as a whole."""
    return ExportFacts(
        selection=choice.words(),
        title=title,
        reader=_READERS[reading_room],
        created=utc_now(),
        namespace=settings.namespace,
        software=f"Zatva {version('zatva')}",
        without_captures=without_captures,
    )


class WarcFile:
    """Receives the captures of one WARC file, which need not be seekable.

    The manifest is the last record, of type `metadata`.
    """

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
        text, length = spooled(self._manifest.pieces(), self._manifest.folder)
        with text:
            header = other_header("metadata", length, kind="application/json", target=_MANIFEST_URI)
            self._file.writelines(compressed(header, iter(lambda: text.read(_BUFFER), b"")))

    def _begin(self) -> None:
        if not self._begun:
            self._file.writelines(information(self._manifest.facts.selection))
        self._begun = True


@contextmanager
def open_output(form: ExportForm, file: BinaryIO, manifest: Manifest) -> Iterator[Output]:
    """Provide the output that writes to the file, which must be seekable for a WACZ file."""
    if form is ExportForm.WACZ:
        with WaczFile(file, manifest) as wacz:
            yield wacz
    else:
        yield WarcFile(file, manifest)


def write_captures(
    found: Iterable[ExportedCapture | LeftOut],
    output: Output,
    manifest: Manifest,
    on_capture: Callable[[ExportedCapture | LeftOut, int], None],
) -> None:
    """Write all captures, and call the function after each one with the bytes written.

    The output is finished only if it has a capture. Raises what the function raises.
    """
    for one in found:
        written = 0
        if isinstance(one, ExportedCapture):
            written = output.add(one)
            manifest.exported(one)
        else:
            manifest.refused(one)
        on_capture(one, written)
    if manifest.captures:
        output.finish()
