"""Formats of plug-ins: installed in a folder, selected by settings, tried before they are served."""

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from lxml import etree
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.errors import ExitCode, MalformedXmlError, SettingsError
from oai.settings import Settings
from provider.app import create_app
from provider.protocol.formats import FORMATS, offered_formats
from provider.protocol.formats.plug_ins import GROUP
from tests.provider.answer import Reply
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Provider, small_pages
from tests.provider.protocol.formats.item import SITE, WHOLE

NAMESPACE = "https://example.org/short"
MODULE = f"""
from oai.xml import escape
from provider.protocol.formats.format import Format

NAMESPACE, SCHEMA = "{NAMESPACE}", "https://example.org/short.xsd"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
FAILS = []
ANSWERS = {{}}

def write(item, site):
    if item.url in ANSWERS:
        return ANSWERS[item.url]
    if item.url in FAILS:
        raise LookupError("no such thing")
    location = f"{{NAMESPACE}} {{FORMAT.schema_url(site.base_url)}}"
    return (
        f'<short xmlns="{{NAMESPACE}}" xmlns:xsi="{{XSI}}" xsi:schemaLocation="{{location}}">'
        f"{{escape(item.title or item.url)}}</short>"
    )

FORMAT = Format(prefix="short", namespace=NAMESPACE, schema=SCHEMA, write=write)
"""

_NUMBERS = itertools.count()

Install = Callable[..., str]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a distribution with one format and returns its module's name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(code: str = MODULE, *, prefix: str = "short", value: str = "FORMAT") -> str:
        # Each test has a separate module, because Python does not import one again.
        name = f"short_format_{next(_NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(dedent(code), encoding="utf-8")
        info = tmp_path / f"{name}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{prefix} = {name}:{value}\n")
        return name

    return add


async def test_the_format_of_a_selected_plug_in_is_listed_and_written(
    install: Install, archive: Archive, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    install()
    known = [archive.add("http://a.example/", title="A & B"), archive.add("http://b.example/?a&b")]
    app = create_app(small_pages(settings, formats=("short", "oai_dc")), database, base_url=BASE_URL)
    provider = Provider(client=await aiohttp_client(app))
    offered = await provider.ask(verb="ListMetadataFormats")
    assert offered.texts("//o:metadataPrefix") == ["short", "oai_dc"]
    assert offered.texts("//o:metadataNamespace")[0] == NAMESPACE
    assert offered.texts("//o:schema")[0] == "https://example.org/short.xsd"
    # The grammar of the tests does not contain this format, so the answer is read without it.
    response = await provider.client.get("/oai?verb=ListRecords&metadataPrefix=short")
    answer = Reply(root=etree.fromstring(await response.read()))
    assert answer.identifiers == known
    written = [element.text for element in answer.root.iter(f"{{{NAMESPACE}}}short")]
    assert written == ["A & B", "http://b.example/?a&b"]
    page = await (await provider.client.get("/oai", headers={"Accept": "text/html"})).text()
    assert "https://example.org/short.xsd" in page


async def test_the_schema_file_of_a_plug_in_is_served(
    install: Install, tmp_path: Path, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    (tmp_path / "short.xsd").write_text("<schema/>")
    code = MODULE.replace('"https://example.org/short.xsd"', '"/schemas/short.xsd"')
    own = "schema=SCHEMA, schema_file=__import__('pathlib').Path(__file__).with_name('short.xsd'),"
    install(code.replace("schema=SCHEMA,", own))
    app = create_app(small_pages(settings, formats=("short",)), database, base_url=BASE_URL)
    provider = Provider(client=await aiohttp_client(app))
    offered = await provider.ask(verb="ListMetadataFormats")
    assert offered.texts("//o:schema")[-1] == f"{BASE_URL}/schemas/short.xsd"
    served = await provider.client.get("/oai/schemas/short.xsd")
    assert (served.content_type, await served.text()) == ("text/xml", "<schema/>")


def test_an_installed_plug_in_that_is_not_selected_is_not_imported(install: Install) -> None:
    name = install("raise RuntimeError")
    assert offered_formats(()) == FORMATS
    assert list(offered_formats(["webarchive", "mods"])) == ["oai_dc", "webarchive", "mods"]
    assert name not in sys.modules


def test_formats_are_offered_once_in_the_order_of_the_settings(
    install: Install,
) -> None:
    install()
    assert list(offered_formats(["short", "mods", "oai_dc", "mods"])) == ["short", "mods", "oai_dc"]


def test_an_unknown_format_is_refused_with_the_installed_ones(install: Install) -> None:
    install()
    with pytest.raises(SettingsError, match=r"'x'; choose from oai_dc, marc21, mods, webarchive, short"):
        offered_formats(["x"])


WRONG = {
    "import": ("import no_such_module_here", "FORMAT", "cannot be imported: ModuleNotFoundError: No module"),
    "object": ("", "FORMAT", "cannot be imported: AttributeError"),
    "syntax": ("def", "FORMAT", "cannot be imported: SyntaxError"),
    "type": (MODULE, "NAMESPACE", "is of type str; it must be a provider.protocol.formats.format.Format"),
    "prefix": (MODULE.replace('"short"', '"long"'), "FORMAT", "its prefix is 'long'; it must be the name"),
    "namespace": (
        MODULE.replace(f'"{NAMESPACE}"', '"short"'), "FORMAT", "namespace 'short' is not an absolute URI"
    ),
    "schema": (
        MODULE.replace('"https://example.org/short.xsd"', '"/schemas/short.xsd"'), "FORMAT",
        "'/schemas/short.xsd' is not an http or https URL; or give `schema_file`",
    ),
    "schema path": (
        MODULE.replace("schema=SCHEMA", "schema=SCHEMA, schema_file=__import__('pathlib').Path(__file__)"),
        "FORMAT", "must be like '/schemas/name.xsd'",
    ),
    "schema file": (
        MODULE.replace('"https://example.org/short.xsd"', '"/schemas/short.xsd"').replace(
            "schema=SCHEMA", "schema=SCHEMA, schema_file=__import__('pathlib').Path('/no/such')"
        ),
        "FORMAT", "schema_file '/no/such' does not exist",
    ),
    "escaping": (
        MODULE.replace("escape(item.title or item.url)", "item.title or item.url"), "FORMAT",
        "what it writes of a document is not well-formed",
    ),
    "bare": (
        MODULE.replace("item.title or item.url", "item.title.strip()"), "FORMAT",
        "it cannot write a document without title, type and host: AttributeError",
    ),
    "other namespace": (
        MODULE.replace('<short xmlns="{NAMESPACE}"', '<short xmlns="urn:other"'), "FORMAT",
        f"is not in its namespace '{NAMESPACE}'",
    ),
    "location": (
        MODULE.replace('xsi:schemaLocation="{location}"', ""), "FORMAT",
        f"lacks xsi:schemaLocation with '{NAMESPACE} https://example.org/short.xsd'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_faulty_plug_in_is_refused_with_the_reason(install: Install, name: str) -> None:
    code, value, words = WRONG[name]
    module = install(code, value=value)
    with pytest.raises(SettingsError) as caught:
        offered_formats(["short"])
    assert words in str(caught.value)
    assert f"the format 'short' of {module} 1.2 ({module}:{value})" in str(caught.value)


@pytest.mark.parametrize("chosen", [[], ["mods"], ["oai_dc"]])
def test_a_plug_in_with_the_prefix_of_a_built_in_format_is_refused(
    install: Install, chosen: list[str]
) -> None:
    name = install(prefix="mods")
    with pytest.raises(SettingsError, match=rf"'mods' of {name} 1\.2 is that of a built-in format"):
        offered_formats(chosen)


def test_two_plug_ins_with_one_prefix_are_refused(install: Install) -> None:
    both = sorted([install(), install()])
    with pytest.raises(SettingsError, match=rf"'short' is offered by {both[0]} 1\.2 and {both[1]} 1\.2"):
        offered_formats(["short"])


def test_a_plug_in_does_not_replace_the_schema_of_another_format(install: Install, tmp_path: Path) -> None:
    (tmp_path / "short.xsd").write_text("<schema/>")
    code = MODULE.replace('"https://example.org/short.xsd"', '"/schemas/webarchive.xsd"')
    own = "schema=SCHEMA, schema_file=__import__('pathlib').Path(__file__).with_name('short.xsd'),"
    install(code.replace("schema=SCHEMA,", own))
    with pytest.raises(SettingsError, match="'webarchive' and 'short' have their own schemas"):
        offered_formats(["webarchive", "short"])


def test_an_exception_names_the_plug_in_and_the_document(install: Install) -> None:
    name = install()
    format_ = offered_formats(["short"])["short"]
    sys.modules[name].FAILS.append(WHOLE.url)
    with pytest.raises(LookupError) as caught:
        format_.write(WHOLE, SITE)
    (note,) = caught.value.__notes__
    assert f"of {name} 1.2" in note
    assert WHOLE.key.hex in note


@pytest.mark.parametrize(
    ("written", "kind", "words"),
    [(None, TypeError, "NoneType instead of text"), ("<short>", MalformedXmlError, "the element")],
)
def test_what_is_no_xml_for_some_documents_is_refused_with_the_plug_in_and_the_document(
    install: Install, written: str | None, kind: type[Exception], words: str
) -> None:
    name = install()
    format_ = offered_formats(["short"])["short"]
    sys.modules[name].ANSWERS[WHOLE.url] = written
    with pytest.raises(kind, match=words) as caught:
        format_.write(WHOLE, SITE)
    (note,) = caught.value.__notes__
    assert f"of {name} 1.2" in note
    assert WHOLE.key.hex in note


def test_the_provider_does_not_start_with_a_plug_in_that_fails(
    install: Install, tmp_path: Path, environment: dict[str, str]
) -> None:
    install("raise OSError('no licence')")
    path = f"{tmp_path}:{Path(__file__).parents[4]}"
    done = subprocess.run(
        [sys.executable, "-m", "zatva", "provider", "serve", "--port", "0"],
        env={**environment, "PYTHONPATH": path, "ZATVA_PROVIDER__FORMATS": '["short"]'},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == ExitCode.NOT_READY
    assert "cannot be imported: OSError: no licence" in done.stderr
    assert "Traceback" not in done.stderr
