"""Checks a WACZ file by its specification; stricter than `wacz validate`, which misses absent files."""

import gzip
import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

_LOCAL_HEADER = 30
_STORED = (".warc.gz", ".cdx.gz")


@dataclass
class Wacz:
    """What a WACZ file contains, as a reader that follows the specification sees it."""

    path: Path
    captures: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """Payloads by URL and WARC-Date, found through the index."""
    index: list[dict[str, str]] = field(default_factory=list)
    pages: list[dict[str, str]] = field(default_factory=list)
    warcs: list[str] = field(default_factory=list)
    manifest: dict[str, Any] = field(default_factory=dict)
    description: dict[str, Any] = field(default_factory=dict)


def read_wacz(path: Path) -> Wacz:
    """Read the whole file. Raises AssertionError or KeyError where it is not as it must be."""
    found = Wacz(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        _check_members(archive, path)
        _check_description(archive, found)
        found.warcs = [name for name in archive.namelist() if name.startswith("archive/")]
        assert found.warcs
        assert all(name.endswith(".warc.gz") for name in found.warcs)
        offsets = {name: list(_members(archive.read(name))) for name in found.warcs}
        lines = list(_index_lines(archive))
        assert [line for line, _ in lines] == sorted(line for line, _ in lines)
        for line, values in lines:
            _follow(archive, found, line.split(b" ")[1].decode(), values)
        known = {(f"archive/{one['filename']}", int(one["offset"])) for one in found.index}
        captured = {(name, offset) for name in found.warcs for offset, kind in offsets[name] if kind}
        assert known == captured, "the index has exactly the captures in the WARC files"
        found.pages = _pages(archive)
        found.manifest = json.loads(archive.read("zatva/manifest.json"))
    return found


def _check_members(archive: zipfile.ZipFile, path: Path) -> None:
    data = path.read_bytes()
    for info in archive.infolist():
        name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
        local = data[info.header_offset + _LOCAL_HEADER + name :][:extra]
        # wabac.js reads local fields as content unless the directory has some, too.
        assert bool(local) <= bool(info.extra), f"{info.filename} has extra fields in its local header alone"
        if info.filename.endswith(_STORED):
            assert info.compress_type == zipfile.ZIP_STORED


def _check_description(archive: zipfile.ZipFile, found: Wacz) -> None:
    text = archive.read("datapackage.json")
    digest = json.loads(archive.read("datapackage-digest.json"))
    assert digest == {"path": "datapackage.json", "hash": _hash(text)}
    found.description = json.loads(text)
    assert found.description["profile"] == "data-package"
    assert found.description["wacz_version"] == "1.1.1"
    listed = {one["path"]: one for one in found.description["resources"]}
    assert set(listed) == set(archive.namelist()) - {"datapackage.json", "datapackage-digest.json"}
    for path, resource in listed.items():
        content = archive.read(path)
        assert (resource["bytes"], resource["hash"]) == (len(content), _hash(content))
        assert resource["name"] == path.rpartition("/")[2]


def _members(data: bytes) -> Iterator[tuple[int, bool]]:
    """Yield the offset of each gzip member, and whether it is a capture's record."""
    place = 0
    while place < len(data):
        packing = zlib.decompressobj(16 + zlib.MAX_WBITS)
        record = packing.decompress(data[place:])
        assert packing.eof
        assert record.startswith(b"WARC/1.1\r\n")
        yield place, b"\r\nWARC-Type: warcinfo\r\n" not in record
        place = len(data) - len(packing.unused_data)


def _index_lines(archive: zipfile.ZipFile) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Yield the lines of the index, read block by block as the second index says."""
    packed = archive.read("indexes/index.cdx.gz")
    meta, *blocks = archive.read("indexes/index.idx").splitlines()
    assert meta == b'!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'
    end = 0
    for block in blocks:
        beginning, _, text = block.partition(b" {")
        place = json.loads(b"{" + text)
        assert place["offset"] == end
        end += place["length"]
        content = packed[place["offset"] : end]
        assert place["digest"] == _hash(content)
        lines = gzip.decompress(content).splitlines()
        assert lines[0].startswith(beginning + b" {")
        yield from ((line, json.loads(line.split(b" ", 2)[2])) for line in lines)
    assert end == len(packed)


def _follow(archive: zipfile.ZipFile, found: Wacz, time: str, values: dict[str, str]) -> None:
    """Read the record to which a line of the index points, and compare it with the line."""
    assert set(values) == {"url", "mime", "status", "digest", "length", "offset", "filename"}
    assert all(isinstance(value, str) for value in values.values())
    begin = int(values["offset"])
    member = archive.read(f"archive/{values['filename']}")[begin : begin + int(values["length"])]
    (record,) = list(_records(member))
    url, date, digest, status, payload = record
    assert (url, "".join(filter(str.isdigit, date))[:14]) == (values["url"], time)
    assert digest == values["digest"]
    assert status in {None, values["status"]}
    found.captures[url, date] = payload
    found.index.append(values)


def _records(data: bytes) -> Iterator[tuple[str, str, str | None, str | None, bytes]]:
    for record in ArchiveIterator(io.BytesIO(data)):
        of = record.rec_headers.get_header
        status = record.http_headers.get_statuscode() if record.http_headers else None
        payload = record.content_stream().read()
        yield of("WARC-Target-URI"), of("WARC-Date"), of("WARC-Payload-Digest"), status, payload


def _pages(archive: zipfile.ZipFile) -> list[dict[str, str]]:
    header, *pages = map(json.loads, archive.read("pages/pages.jsonl").splitlines())
    assert header["format"] == "json-pages-1.0"
    return pages


def _hash(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
