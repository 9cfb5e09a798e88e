"""Benchmark of large and hostile responses: time and peak memory of a harvest and of a probe of each kind.

`python -m tests.bench.large_answers KIND RECORDS` serves one kind: every list request gets the same bytes,
from a temporary file. With `everywhere` as third argument, Identify gets them, too.
"""

import asyncio
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from oai.database import open_database
from oai.settings import load_settings
from tests.bench import memory_repository
from tests.bench.measuring import mb, run, say, served, zatva

_FEW: Final = 10
"""Number of good records before the hostile part."""
_ENDS: Final = (0, 3, 4)
"""Exit codes: done, records refused, remote failed."""
_HEAD: Final = f"{memory_repository.HEAD}<ListRecords>".encode()
_TAIL: Final = b"</ListRecords></OAI-PMH>"
Pieces = Iterator[bytes]


def measure(*, records: int) -> None:
    """Print a Markdown table."""
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        environment = {**os.environ, "ZATVA_DATA": str(root / "data")}
        environment.pop("ZATVA_DATABASE_URL", None)
        with open_database(load_settings(data=root / "data", database_url=None)):
            say("answer", "bytes sent", "command", "exit code", "seconds", "peak", "records stored")
            say("---", "---:", "---", "---:", "---:", "---:", "---:")
            for kind, (about, _, packed) in _KINDS.items():
                with served(__name__, kind, str(records)) as (url, size):
                    out = root / kind
                    done = run(environment, *zatva("harvest", url, "--out", str(out), "-q"), allowed=_ENDS)
                    stored = sum(len(names) for _, _, names in os.walk(out))
                    how = f"{about}, gzip" if packed else about
                    seconds = f"{done.seconds:.1f}"
                    say(
                        how,
                        f"{int(size):,}",
                        "harvest",
                        str(done.status),
                        seconds,
                        mb(done.peak),
                        f"{stored:,}",
                    )
                with served(__name__, kind, str(records), "everywhere") as (url, _):
                    done = run(environment, *zatva("probe", url, "-q"), allowed=_ENDS)
                    say("", "", "probe", str(done.status), f"{done.seconds:.1f}", mb(done.peak), "")


def _good(count: int) -> Pieces:
    for begin in range(0, count, 1000):
        records = range(begin, min(begin + 1000, count))
        yield "".join(_long(number) for number in records).encode()


def _long(number: int) -> str:
    """Return a record of two kilobytes."""
    return memory_repository.record(number).replace("</dc:description>", " x" * 500 + "</dc:description>")


def _elements(_records: int) -> Pieces:
    yield from _good(_FEW)
    yield b"<a/>" * 5_000_000


def _blanks(_records: int) -> Pieces:
    yield from _good(_FEW)
    for _ in range(2000):
        yield b" " * 1_000_000


def _nested(_records: int) -> Pieces:
    yield from _good(_FEW)
    nest = "<a>" * 100_000 + "</a>" * 100_000
    yield _long(_FEW).replace("<dc:title>", f"<dc:title>{nest}").encode()


def _attribute(_records: int) -> Pieces:
    yield from _good(_FEW)
    before, after = _long(_FEW).encode().split(b"<dc:title>")
    yield before + b'<dc:title a="'
    noise = os.urandom(3_000_000).hex().encode()  # data that compresses well would be refused for its ratio
    for _ in range(67):
        yield noise
    yield b'">' + after


_KINDS: Final[dict[str, tuple[str, Callable[[int], Pieces], bool]]] = {
    "honest": ("all records in one answer, without a token", _good, False),
    "elements": ("5 million elements behind ten records", _elements, True),
    "blanks": ("2 GB of blanks behind ten records", _blanks, True),
    "nested": ("100,000 nested elements in the eleventh record", _nested, False),
    "attribute": ("one attribute of 400 MB in the eleventh record", _attribute, True),
}


def _write(file: BinaryIO, kind: str, records: int) -> int:
    """Write the response; return its size."""
    _, make, packed = _KINDS[kind]
    packing = zlib.compressobj(9, zlib.DEFLATED, 31) if packed else None
    file.writelines(packing.compress(piece) if packing else piece for piece in (_HEAD, *make(records), _TAIL))
    if packing:
        file.write(packing.flush())
    file.flush()
    return file.tell()


async def _serve(kind: str, records: int, *, everywhere: bool) -> None:
    with tempfile.TemporaryFile() as file:
        size = _write(file, kind, records)
        encoding = b"Content-Encoding: gzip\r\n" if _KINDS[kind][2] else b""
        identify = f"{memory_repository.HEAD}{memory_repository.identify()}</OAI-PMH>".encode()

        async def answer(head: bytes, _form: bytes, writer: asyncio.StreamWriter) -> None:
            if b"verb=Identify" in head and not everywhere:
                await _send(writer, b"Content-Length: %d\r\n" % len(identify), [identify])
            else:
                pieces = (os.pread(file.fileno(), 2**18, at) for at in range(0, size, 2**18))
                await _send(writer, b"%bContent-Length: %d\r\n" % (encoding, size), pieces)

        await memory_repository.serve_requests(answer, f"/oai {size}")


async def _send(writer: asyncio.StreamWriter, headers: bytes, pieces: Iterable[bytes]) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n" + headers + b"\r\n")
    for piece in pieces:
        writer.write(piece)
        await writer.drain()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), everywhere="everywhere" in sys.argv))
