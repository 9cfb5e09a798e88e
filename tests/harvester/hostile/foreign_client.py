"""Harvests a repository with another client and prints a JSON line for each received record.

    python foreign_client.py sickle|scythe URL [FROM]

It runs in the client's environment and imports no module of this project.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

_METADATA = "./{*}metadata/*"


def _records(client: str, url: str, from_: str | None) -> Iterator[Any]:
    if client == "sickle":
        since = {"from": from_} if from_ else {}
        yield from importlib.import_module("sickle").Sickle(url).ListRecords(metadataPrefix="oai_dc", **since)
        return
    with importlib.import_module("oaipmh_scythe").Scythe(url) as scythe:
        yield from scythe.list_records(metadata_prefix="oai_dc", from_=from_)


def _line(record: Any) -> str:
    etree = importlib.import_module("lxml.etree")
    metadata = record.xml.find(_METADATA)
    content = (
        b"" if metadata is None else etree.tostring(metadata, method="c14n", exclusive=True, with_tail=False)
    )
    found = {
        "identifier": record.header.identifier,
        "deleted": bool(record.header.deleted),
        "metadata": content.decode(),
    }
    return json.dumps(found)


def main() -> None:
    """Print the records, then the error that ended the harvest, if any."""
    client, url, *since = sys.argv[1:]
    try:
        for record in _records(client, url, since[0] if since else None):
            print(_line(record), flush=True)  # noqa: T201 for the process that started this one
    except Exception as error:  # noqa: BLE001 whatever it is, its name is the result
        print(json.dumps({"error": type(error).__name__}))  # noqa: T201 the same


if __name__ == "__main__":
    main()
