"""The examples in the documentation of the client library do what it says."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.commands import Process
from tests.harvester.documentation import Example, examples
from tests.harvester.fake_repository import FakeRepository, Item, serve

_PAGE = "how-to/use-the-client-library.md"


def _items(count: int) -> list[Item]:
    return [
        Item(
            identifier=f"oai:repository.example:{number}",
            title=f"Title {number}",
            sets=("maps",) if number in {7, 8} else ("books",),
        )
        for number in range(count)
    ]


@pytest.fixture
async def addresses() -> AsyncIterator[dict[str, str]]:
    """Map the documented base URLs to the addresses of the test servers."""
    whole = FakeRepository(items=_items(250), page_size=100, sets=("books", "maps"))
    broken = FakeRepository(items=_items(10), fault=lambda _, good: good.replace(b"Title 2", b"A & B"))
    async with serve(whole), serve(broken):
        yield {"https://repository.example/oai": whole.url, "https://broken.example/oai": broken.url}


async def _run(addresses: dict[str, str], folder: Path, module: str, *words: str | Path) -> tuple[str, str]:
    process = Process(os.environ, *words, module=module, folder=folder, stdout=PIPE, stderr=PIPE)
    printed, complaints = await asyncio.to_thread(process.communicate)
    for name, real in addresses.items():
        printed = printed.replace(real, name)
    return printed, complaints


def _there(text: str, addresses: dict[str, str]) -> str:
    for name, real in addresses.items():
        text = text.replace(name, real)
    return text


@pytest.mark.parametrize("example", examples(_PAGE, "python"), ids=lambda example: example.code[:60].strip())
async def test_each_example_prints_the_documented_output(
    example: Example, addresses: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "example.py"
    file.write_text(_there(example.code, addresses))
    printed, complaints = await _run(addresses, tmp_path, "tests.harvester.client.run_example", file)
    assert complaints == ""
    assert printed == example.output


async def test_the_documented_probe_has_the_documented_findings(
    addresses: dict[str, str], tmp_path: Path
) -> None:
    (example,) = examples(_PAGE, "console")
    module, *words = _there(example.code.removeprefix("$ "), addresses).split()
    printed, complaints = await _run(addresses, tmp_path, module, *words)
    assert complaints == ""
    assert _timeless(printed) == _timeless(example.output or "")


def _timeless(printed: str) -> str:
    """Remove the figures that differ between machines."""
    return re.sub(r"[0-9.]+ s, [0-9,]+ bytes", "N s, N bytes", printed)
