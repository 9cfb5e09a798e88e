"""Benchmark of indexing archive files into a filled database, compared with warcio, which only reads."""

from collections.abc import Mapping
from pathlib import Path

from tests.bench.measuring import mb, read_with_warcio, run, say, zatva
from tests.bench.warcs import Shape, write_warcs

TARGET = 1.0
_PROCESSES = 2


def measure_indexing(environment: Mapping[str, str], root: Path, documents: int, present: int) -> None:
    """Print the rates, their ratio, and the peak memory of the largest process, for each shape of files."""
    for number, shape in enumerate(Shape):
        _measure(environment, root / f"archive-{number}", documents, present + number * documents, shape)
        say("", "")


def _measure(
    environment: Mapping[str, str], folder: Path, documents: int, present: int, shape: Shape
) -> None:
    files = list(write_warcs(folder, documents, shape))
    reading = read_with_warcio(environment, files)
    index = run(
        environment, *zatva("provider", "index", *map(str, files), "--jobs", str(_PROCESSES), "--quiet")
    )
    size = sum(file.stat().st_size for file in files)
    say(f"indexing {documents:,} documents in {len(files)} files of {mb(size)} in total, {shape}", "")
    say("---", "---:")
    say("documents in the database before", f"{present:,}")
    say("warcio, one process that only iterates", f"{documents / reading.seconds:,.0f}/s")
    say(f"`zatva provider index --jobs {_PROCESSES}`", f"{documents / index.seconds:,.0f}/s")
    say(f"speed compared with warcio (at least {TARGET:g})", f"{reading.seconds / index.seconds:.2f}")
    say("largest process at its peak (under 300 MB)", mb(index.peak))
