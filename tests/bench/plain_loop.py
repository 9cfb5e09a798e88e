"""Lower bound of the harvest benchmark: `python -m tests.bench.plain_loop URL FOLDER`.

It does only what every harvester must do: it downloads page after page, parses each with lxml, and writes a
file for each record. It stores no rows, syncs nothing, validates nothing, and could not resume after a
failure.
"""

import asyncio
import sys
from pathlib import Path

import aiohttp
from lxml import etree

_OAI = "{http://www.openarchives.org/OAI/2.0/}"


async def _harvest(url: str, folder: Path) -> int:
    number = 0
    arguments = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(url, params=arguments) as answer:
                root = etree.fromstring(await answer.read())
            for record in root.iter(f"{_OAI}record"):
                (folder / f"{number}.xml").write_bytes(etree.tostring(record, encoding="UTF-8"))
                number += 1
            token = root.findtext(f".//{_OAI}resumptionToken")
            if not token:
                return number
            arguments = {"verb": "ListRecords", "resumptionToken": token}


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.mkdir()
    sys.stdout.write(f"{asyncio.run(_harvest(sys.argv[1], target))} records\n")
