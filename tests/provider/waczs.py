"""Writes WACZ files for tests; tests add faults themselves."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGES_HEADER = '{"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}\n'


def wacz(
    path: Path,
    archives: Mapping[str, bytes],
    *,
    pages: Sequence[Mapping[str, Any]] = (),
    compression: int = zipfile.ZIP_STORED,
    extra: bytes = b"",
    **others: str | bytes,
) -> Path:
    """Write a WACZ file with these members of its folder archive, and with their digests; gives the path.

    `extra` is an extra field of the headers before the data; `others` replaces other members, by their names
    without folder and suffix.
    """
    listed = "".join(json.dumps(page) + "\n" for page in pages)
    content: dict[str, str | bytes] = {f"archive/{name}": data for name, data in archives.items()}
    content["pages/pages.jsonl"] = others.get("pages_jsonl", PAGES_HEADER + listed)
    if "extraPages_jsonl" in others:
        content["pages/extraPages.jsonl"] = others["extraPages_jsonl"]
    content["datapackage.json"] = others.get("datapackage", json.dumps(datapackage(content)))
    if digest := others.get("digest", _digest(content["datapackage.json"])):
        content["datapackage-digest.json"] = digest
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        for name, data in content.items():
            info = zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6))
            info.compress_type = compression if name.startswith("archive/") else zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return path if not extra else _with_extra(path, extra)


def multi_wacz(path: Path, waczs: Mapping[str, bytes], *, compression: int = zipfile.ZIP_STORED) -> Path:
    """Write a WACZ file of WACZ files, as wabac.js has them, and return the path."""
    package = {"profile": "multi-wacz-package", "resources": datapackage(waczs)["resources"]}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in (*waczs.items(), ("datapackage.json", json.dumps(package).encode())):
            file.writestr(zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6)), data, compression)
    return path


def datapackage(content: Mapping[str, str | bytes]) -> dict[str, Any]:
    """The description of these members."""
    resources = [
        {
            "name": name.rpartition("/")[2],
            "path": name,
            "hash": "sha256:" + hashlib.sha256(_bytes(data)).hexdigest(),
            "bytes": len(_bytes(data)),
        }
        for name, data in content.items()
    ]
    return {"profile": "data-package", "wacz_version": "1.1.1", "resources": resources}


def _digest(package: str | bytes) -> str:
    digest = "sha256:" + hashlib.sha256(_bytes(package)).hexdigest()
    return json.dumps({"path": "datapackage.json", "hash": digest})


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _with_extra(path: Path, extra: bytes) -> Path:
    """Insert an extra field into each header before the data, but not into the directory."""
    with zipfile.ZipFile(path) as file:
        infos, end = file.infolist(), file.start_dir
    data = path.read_bytes()
    out, moved = io.BytesIO(), {}
    for info, following in zip(infos, [*(one.header_offset for one in infos[1:]), end], strict=True):
        header = bytearray(data[info.header_offset : following])
        name_end = 30 + int.from_bytes(header[26:28], "little")
        header[28:30] = len(extra).to_bytes(2, "little")
        header[name_end:name_end] = extra
        moved[info.header_offset] = out.tell()
        out.write(header)
    directory, begin = bytearray(data[end:]), out.tell()
    place = 0
    for info in infos:
        directory[place + 42 : place + 46] = moved[info.header_offset].to_bytes(4, "little")
        place += 46 + len(info.orig_filename) + len(info.extra) + len(info.comment)
    directory[place + 16 : place + 20] = begin.to_bytes(4, "little")
    path.write_bytes(out.getvalue() + directory)
    return path
