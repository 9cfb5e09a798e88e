"""The how-to for adding a format, followed to the letter."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.protocol import formats
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Provider, small_pages

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "add-a-format.md"


def code_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def citation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module of the how-to, registered as it describes."""
    module_text, registry_text = code_blocks()
    module = ModuleType("provider.protocol.formats.citation")
    exec(module_text, vars(module))  # noqa: S102 the page's own code
    names = {**vars(formats), "citation": module}
    exec(registry_text, names)  # noqa: S102
    monkeypatch.setattr(formats, "FORMATS", names["FORMATS"])
    return module


async def test_a_format_added_as_the_how_to_describes_is_offered_and_written(
    citation: ModuleType,
    archive: Archive,
    database: Database,
    settings: Settings,
    aiohttp_client: AiohttpClient,
) -> None:
    known = archive.add("http://a.example/?a=1&b=<2>", title="\x01")
    app = create_app(small_pages(settings), database, base_url=BASE_URL)
    provider = Provider(client=await aiohttp_client(app))
    offered = await provider.ask(verb="ListMetadataFormats", identifier=known)
    assert offered.texts("//o:metadataPrefix")[-1] == citation.FORMAT.prefix
    assert offered.texts("//o:metadataNamespace")[-1] == citation.NAMESPACE
    answer = await provider.ask(verb="GetRecord", identifier=known, metadataPrefix="citation")
    (written,) = answer.root.iter(f"{{{citation.NAMESPACE}}}citation")
    key = known.rpartition(":")[2]
    assert [element.text for element in written] == [
        "http://a.example/?a=1&b=<2>",
        f"http://archive.example/archive/{key}",
        "2020-01-02T00:00:00Z",
    ]
    listed = await provider.ask(verb="ListRecords", metadataPrefix="citation")
    assert listed.identifiers == [known]
