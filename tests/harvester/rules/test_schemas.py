import asyncio
from pathlib import Path

import pytest
from lxml import etree

from harvester.rules import schemas as module
from harvester.rules.schemas import SchemaCache, Schemas, schema_fetcher
from oai.errors import ExitCode, StrictCheckError
from oai.sections import HarvesterSettings
from tests.harvester.rules.schema_server import BOOK, LIBRARY, NOTE, PERSON, schema, schemas, serve_schemas

GOOD = f'<book xmlns="{BOOK}" xml:lang="en"><title>A</title><author>Ann</author><pages>3</pages></book>'


async def gathered(folder: Path, url: str) -> etree.XMLSchema:
    found = schemas(folder)
    await found.gather(BOOK, url, by="ListMetadataFormats")
    return found.compile({BOOK: url})


async def test_a_schema_is_fetched_once_with_all_that_it_imports_and_includes(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        compiled = await gathered(tmp_path / "new" / "schemas", f"{server.url}/book.xsd")

    paths = ("/book.xsd", "/parts/title.xsd", "/parts/pages.xsd", "/people/person.xsd")
    assert server.asked == dict.fromkeys(paths, 1)
    assert compiled.validate(etree.fromstring(GOOD))
    for good, bad in (("Ann", "ann"), (">3<", ">0<"), (">A<", "><"), ('"en"', '"e n"')):
        assert not compiled.validate(etree.fromstring(GOOD.replace(good, bad)))


async def test_fetched_schemas_are_used_without_the_network(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        url = f"{server.url}/book.xsd"
        await gathered(tmp_path, url)

    assert (await gathered(tmp_path, url)).validate(etree.fromstring(GOOD))
    assert sum(server.asked.values()) == 4


async def test_files_placed_in_the_cache_by_hand_are_used(tmp_path: Path) -> None:
    base = "https://schemas.example/formats"
    files = {
        "https%3A%2F%2Fschemas.example%2Fformats%2Fbook.xsd": "/book.xsd",
        "https%3A%2F%2Fschemas.example%2Fformats%2Fparts%2Ftitle.xsd": "/parts/title.xsd",
        "https%3A%2F%2Fschemas.example%2Fformats%2Fparts%2Fpages.xsd": "/parts/pages.xsd",
        "https%3A%2F%2Fschemas.example%2Fpeople%2Fperson.xsd": "/people/person.xsd",
    }
    for name, path in files.items():
        (tmp_path / name).write_text(LIBRARY[path])

    assert (await gathered(tmp_path, f"{base}/book.xsd")).validate(etree.fromstring(GOOD))


async def test_concurrent_fetches_leave_a_complete_cache(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        url = f"{server.url}/book.xsd"
        await asyncio.gather(*(gathered(tmp_path, url) for _ in range(8)))

    names = sorted(path.name for path in tmp_path.iterdir())  # noqa: ASYNC240 nothing waits meanwhile
    assert len(names) == 4
    assert not any(name.endswith(".part") for name in names)
    assert (await gathered(tmp_path, url)).validate(etree.fromstring(GOOD))


async def test_relative_addresses_are_resolved_against_the_redirect_target_now_and_later(
    tmp_path: Path,
) -> None:
    async with serve_schemas() as server:
        server.files["/old/place.xsd"] = f"{server.url}/book.xsd"
        url = f"{server.url}/old/place.xsd"
        await gathered(tmp_path, url)

    assert server.asked["/book.xsd"] == 1
    assert (await gathered(tmp_path, url)).validate(etree.fromstring(GOOD))


async def test_schemas_of_several_namespaces_are_compiled_as_one(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        found = schemas(tmp_path)
        locations = {BOOK: f"{server.url}/book.xsd", NOTE: f"{server.url}/note.xsd"}
        for namespace, url in locations.items():
            await found.gather(namespace, url, by="a record")
        compiled = found.compile(locations)

    note = GOOD.replace("</book>", f'<note xmlns="{NOTE}">2024-05-01</note></book>')
    assert compiled.validate(etree.fromstring(note))
    assert not compiled.validate(etree.fromstring(note.replace("-05-", "-May-")))
    assert found.namespaces == {BOOK, PERSON, NOTE, ""}


async def refusal(folder: Path, files: dict[str, str | int], path: str = "/a.xsd") -> str:
    async with serve_schemas(files) as server:
        with pytest.raises(StrictCheckError) as caught:
            await gathered(folder, f"{server.url}{path}")
        assert caught.value.exit_code == ExitCode.STRICT_CHECK
        return str(caught.value).replace(server.url, "http://s")


UNKNOWN_TYPE = schema('<xs:element name="book" type="nothing"/>', BOOK)
INCLUDING = schema('<xs:include schemaLocation="b.xsd"/><xs:element name="book"/>', BOOK)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "the schema http://s/a.xsd, named by ListMetadataFormats, is not available: HTTP status 404"),
        ({"/a.xsd": "<html/>"}, "ListMetadataFormats, is not available: it is not an XML Schema but 'html'"),
        ({"/a.xsd": "no"}, "it is not XML (Start tag expected"),
        ({"/a.xsd": INCLUDING}, "s/b.xsd, named by the schema http://s/a.xsd, is not available: HTTP"),
        ({"/a.xsd": INCLUDING, "/b.xsd": 503}, "named by the schema http://s/a.xsd, is not available: "),
        ({"/a.xsd": INCLUDING, "/b.xsd": "<p>"}, "schema http://s/a.xsd, is not available: it is not XML"),
        ({"/a.xsd": INCLUDING.replace("b.xsd", "file:///a")}, "'file:///a', which is not an http or https"),
        ({"/a.xsd": INCLUDING.replace("b.xsd", "http://[")}, "is not available: it is"),
        ({"/a.xsd": "file:///etc/passwd"}, "not an http or https address"),
        ({"/a.xsd": UNKNOWN_TYPE}, "the schema http://s/a.xsd cannot be used: http://s/a.xsd, line 2: "),
        ({"/a.xsd": schema("", "urn:other")}, "of the namespace 'urn:other', not of 'urn:example:book'"),
    ],
)  # fmt: skip
async def test_a_schema_that_is_not_available_is_reported_with_its_address_and_reason(
    files: dict[str, str | int], reason: str, tmp_path: Path
) -> None:
    message = await refusal(tmp_path, files)

    assert reason in message
    assert message.endswith(
        "; put a valid one into the schema cache, or use validation strict (well-formed) or loose (lenient)"
    )


async def test_a_file_that_is_not_a_schema_is_not_stored(tmp_path: Path) -> None:
    await refusal(tmp_path / "a", {"/a.xsd": "<html/>"})
    await refusal(tmp_path / "b", {"/a.xsd": INCLUDING})

    assert not (tmp_path / "a").exists()
    assert len(list((tmp_path / "b").iterdir())) == 1


async def test_an_unknown_schema_without_network_is_reported(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        pass

    with pytest.raises(StrictCheckError, match="does not accept connections"):
        await gathered(tmp_path, f"{server.url}/book.xsd")


async def test_a_circular_redirect_ends(tmp_path: Path) -> None:
    async with serve_schemas({}) as server:
        server.files["/a.xsd"] = f"{server.url}/a.xsd"
        with pytest.raises(StrictCheckError, match="more than 5 redirects"):
            await gathered(tmp_path, f"{server.url}/a.xsd")


async def test_a_broken_file_in_the_cache_is_named(tmp_path: Path) -> None:
    found = schemas(tmp_path)
    found.cache.write("http://a.example/a.xsd", b"<html/>")

    with pytest.raises(
        StrictCheckError, match=r"cache, .*http%3A%2F%2Fa\.example%2Fa\.xsd, is not an XML Schema"
    ):
        await found.gather(BOOK, "http://a.example/a.xsd", by="ListMetadataFormats")


async def test_an_endless_chain_of_schemas_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 3)
    chain: dict[str, str | int] = {f"/{n}.xsd": INCLUDING.replace("b.xsd", f"{n + 1}.xsd") for n in range(10)}

    assert "the schema consists of more than 3 files" in await refusal(tmp_path, chain, "/0.xsd")


async def test_a_schema_that_is_too_large_is_rejected(tmp_path: Path) -> None:
    message = await refusal(tmp_path, {"/a.xsd": schema(f"<!--{'x' * 8 * 1024**2}-->", BOOK)})

    assert "larger than 8,388,608 bytes" in message


async def test_entities_of_a_schema_are_limited_and_open_no_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("<xs:element name='book'/>")
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 30}">' for n in range(1, 10))
    for inner, used in (
        (f'<!ENTITY e0 "aaaaaaaaaa">{bomb}', '<xs:element name="book" id="&e9;"/>'),
        (f'<!ENTITY file SYSTEM "{secret.as_uri()}">', "&file;"),
    ):
        text = schema(used, BOOK).replace("?>\n", f"?>\n<!DOCTYPE xs:schema [{inner}]>")
        async with serve_schemas({"/a.xsd": text}) as server:
            found = schemas(tmp_path / "cache")
            try:
                await found.gather(BOOK, f"{server.url}/a.xsd", by="a record")
                compiled = found.compile({BOOK: f"{server.url}/a.xsd"})
            except StrictCheckError:
                continue
            assert not compiled.validate(etree.fromstring(f'<book xmlns="{BOOK}"/>'))


async def test_a_schema_with_a_document_type_is_accepted(tmp_path: Path) -> None:
    declared = '<!DOCTYPE xs:schema PUBLIC "-//A//DTD//EN" "XMLSchema.dtd" [<!ENTITY n "note">]>'
    text = LIBRARY["/note.xsd"].replace("?>\n", f"?>\n{declared}\n").replace('name="note"', 'name="&n;"')
    for _ in range(2):
        async with serve_schemas({"/a.xsd": text}) as server:
            found = schemas(tmp_path)
            await found.gather(NOTE, f"{server.url}/a.xsd", by="a record")

            compiled = found.compile({NOTE: f"{server.url}/a.xsd"})

        assert compiled.validate(etree.fromstring(f'<note xmlns="{NOTE}">2024-05-01</note>'))
        assert server.asked == {"/a.xsd": 1}


EXTERNAL = '<!DOCTYPE xs:schema [<!ENTITY {}lat1 PUBLIC "-//A//Latin 1//EN" "lat1.ent">{}]>'


async def test_unused_external_entities_of_a_schema_are_not_needed(tmp_path: Path) -> None:
    """As in xhtml-charent-1.xsd, which is included by the schemas of DDI Codebook."""
    text = LIBRARY["/note.xsd"].replace("?>\n", f"?>\n{EXTERNAL.format('% ', '%lat1;')}\n")
    async with serve_schemas({"/a.xsd": text}) as server:
        found = schemas(tmp_path)
        await found.gather(NOTE, f"{server.url}/a.xsd", by="a record")

        compiled = found.compile({NOTE: f"{server.url}/a.xsd"})

    assert compiled.validate(etree.fromstring(f'<note xmlns="{NOTE}">2024-05-01</note>'))
    assert server.asked == {"/a.xsd": 1}


async def test_a_schema_that_needs_an_external_entity_is_rejected(tmp_path: Path) -> None:
    text = schema("&lat1;", NOTE).replace("?>\n", f"?>\n{EXTERNAL.format('', '')}\n")

    message = await refusal(tmp_path, {"/a.xsd": text})

    assert "it is a document that uses the external entity lat1" in message


def test_names_in_the_cache_are_simple_and_unique(tmp_path: Path) -> None:
    cache = SchemaCache(folder=tmp_path)
    urls = [
        "http://a.example/x?y=1&z=~../\\ž",
        "http://a.example/x",
        *(f"http://a/{'x' * 500}{n}" for n in range(3)),
    ]

    names = [cache.path(url).name for url in urls]

    assert len(set(names)) == len(urls)
    assert all(
        len(name) <= 200 and name.replace("%", "").replace(".", "").replace("-", "").isalnum()
        for name in names
    )
    assert names[1] == "http%3A%2F%2Fa.example%2Fx"


def test_the_cache_returns_what_was_written(tmp_path: Path) -> None:
    cache = SchemaCache(folder=tmp_path / "a" / "b")
    assert cache.read("http://a/b") is None

    cache.write("http://a/b", b"1")
    cache.write("http://a/b", b"2")

    assert (cache.read("http://a/b"), cache.read("http://a/B")) == (b"2", None)


async def test_a_cache_folder_that_is_not_writable_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    fetch = schema_fetcher(HarvesterSettings(retries=0), named_by_public=False)
    found = Schemas(cache=SchemaCache(folder=tmp_path / "file" / "schemas"), fetch=fetch)
    async with serve_schemas() as server:
        with pytest.raises(StrictCheckError, match="cannot be stored in"):
            await found.gather(NOTE, f"{server.url}/note.xsd", by="a record")
