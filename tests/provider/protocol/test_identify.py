"""Identify: the values of the settings, and the validation of the settings."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpClient

from oai.database import Database
from oai.errors import SettingsError
from oai.settings import Settings, load_settings
from provider.app import create_app
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Kept, Provider, small_pages

OWN = (
    '<about xmlns="urn:test:description" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="urn:test:description http://archive.example/about.xsd">Ours</about>'
)


async def served(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient, **changes: object
) -> Provider:
    app = create_app(small_pages(settings, **changes), database, base_url=BASE_URL)
    return Provider(client=await aiohttp_client(app))


async def test_identify_contains_the_values_of_the_settings(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    changed = small_pages(
        settings, repository_name="A & B <archive>", admin_emails=("a@b.example", "c@d.example")
    )
    provider = Provider(client=await aiohttp_client(create_app(changed, database, base_url=BASE_URL)))
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:repositoryName") == ["A & B <archive>"]
    assert answer.texts("//o:adminEmail") == ["a@b.example", "c@d.example"]
    assert answer.texts("//o:baseURL") == answer.texts("o:request") == [BASE_URL]


async def test_the_earliest_datestamp_is_that_of_the_earliest_record(
    provider: Provider, archive: Archive
) -> None:
    archive.add(datestamp=datetime(2021, 1, 1, tzinfo=UTC))
    archive.add(datestamp=datetime(2020, 6, 1, tzinfo=UTC), deleted=True)
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:earliestDatestamp") == ["2020-06-01T00:00:00Z"]


async def test_the_earliest_datestamp_is_never_in_the_future(provider: Provider, archive: Archive) -> None:
    archive.add(datestamp=datetime(2999, 1, 1, tzinfo=UTC))
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:earliestDatestamp") == [answer.response_date]


async def test_an_empty_archive_has_an_earliest_datestamp(provider: Provider) -> None:
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:earliestDatestamp") == ["1970-01-01T00:00:00Z"]


async def test_the_sample_identifier_is_a_record(provider: Provider, archive: Archive) -> None:
    identifier = archive.add()
    answer = await provider.ask(verb="Identify")
    assert identifier in [element.text for element in answer.root.iter() if element.text]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (None, "2020-01-01T00:00:00Z"),
        ("2000-01-01T12:00:00Z", "2000-01-01T12:00:00Z"),
        ("2021-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
    ],
)
async def test_the_earliest_datestamp_is_the_configured_one_or_that_of_an_earlier_record(
    archive: Archive,
    database: Database,
    settings: Settings,
    aiohttp_client: AiohttpClient,
    changed: str | None,
    expected: str,
) -> None:
    archive.add()
    provider = await served(database, settings, aiohttp_client, earliest_datestamp=changed)
    answer = await provider.ask(verb="Identify")
    assert answer.texts("//o:earliestDatestamp") == [expected]


async def test_by_default_identify_describes_only_the_identifier_scheme(provider: Provider) -> None:
    answer = await provider.ask(verb="Identify")
    assert containers(answer.root.xpath("//*[local-name()='description']/*")) == ["oai-identifier"]


async def test_identify_contains_every_configured_description(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    provider = await served(
        database,
        settings,
        aiohttp_client,
        friends=("https://a.example/oai?x=1&y=2", "https://b.example/oai"),
        content_policy="Czech pages & more",
        data_policy="https://archive.example/policy",
        metadata_licence="https://creativecommons.org/publicdomain/zero/1.0/",
        descriptions=(OWN,),
    )
    root = (await provider.ask(verb="Identify")).root
    assert containers(root.xpath("//*[local-name()='description']/*")) == [
        "oai-identifier",
        "eprints",
        "friends",
        "rightsManifest",
        "about",
    ]
    assert root.xpath("//*[local-name()='friends']/*/text()") == [
        "https://a.example/oai?x=1&y=2",
        "https://b.example/oai",
    ]
    assert root.xpath("//*[local-name()='content']/*[local-name()='text']/text()") == ["Czech pages & more"]
    assert root.xpath("//*[local-name()='dataPolicy']/*[local-name()='URL']/text()") == [
        "https://archive.example/policy"
    ]
    assert root.xpath("//@ref") == ["https://creativecommons.org/publicdomain/zero/1.0/"]


async def test_only_the_configured_formats_are_offered(
    archive: Archive, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    known = archive.add()
    provider = await served(database, settings, aiohttp_client, formats=("mods",))
    formats = await provider.ask(verb="ListMetadataFormats", identifier=known)
    assert formats.texts("//o:metadataPrefix") == ["oai_dc", "mods"]
    refused = await provider.ask(verb="GetRecord", identifier=known, metadataPrefix="marc21")
    assert refused.codes == ["cannotDisseminateFormat"]


async def test_a_token_of_a_format_no_longer_offered_gets_bad_resumption_token(
    archive: Archive, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add_many(4)
    before = await served(database, settings, aiohttp_client)
    token = (await before.ask(verb="ListRecords", metadataPrefix="mods")).token or ""
    after = await served(database, settings, aiohttp_client, formats=("oai_dc",))
    assert (await after.ask(verb="ListRecords", resumptionToken=token)).codes == ["badResumptionToken"]


async def test_an_unknown_format_prevents_the_start(database: Database, settings: Settings) -> None:
    with pytest.raises(SettingsError, match="'marcxml'; choose from oai_dc"):
        create_app(small_pages(settings, formats=("marcxml",)), database, base_url=BASE_URL)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("earliest_datestamp = '2000-01-01'", ["'2000-01-01'", "to the second"]),
        ("earliest_datestamp = '2000-02-30T00:00:00Z'", ["not a valid date"]),
        ("replay_url = 'https://replay.example/{uri}'", ["{uri}", "{key}, {timestamp}, {url}"]),
        ("replay_url = 'https://replay.example/'", ["the same for all", "{key}"]),
        ("replay_url = 'ftp://replay.example/{key}'", ["https?://"]),
        ("friends = ['a.example']", ["friends.0", "https?://"]),
        ("metadata_licence = 'CC0'", ["metadata_licence", "https?://"]),
        ("content_policy = ''", ["content_policy", "at least 1 character"]),
        ("descriptions = ['<a>']", ["descriptions.0", "line 1"]),
        ("descriptions = ['<a/>']", ["xsi:schemaLocation"]),
        ("base_url = 'https://archive.example/oai?x=1'", ["base_url", "https?://"]),
        ("records_per_answer = 0", ["records_per_answer", "greater than or equal to 1"]),
        ("token_hours = 0", ["token_hours", "greater than 0"]),
        ("admin_emails = []", ["admin_emails", "at least 1 item"]),
        ("deleted_record = 'no'", ["deleted_record", "does not exist"]),
    ],
)
def test_an_invalid_setting_is_refused_with_the_allowed_values(
    tmp_path: Path, setting: str, words: Sequence[str]
) -> None:
    file = tmp_path / "zatva.toml"
    file.write_text(f"[provider]\n{setting}\n")
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    for word in words:
        assert word in str(caught.value)


def containers(found: object) -> list[str]:
    assert isinstance(found, list)
    return [str(element.tag).rpartition("}")[2] for element in found]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("https://a.example/policy", "URL"),
        ("see https://a.example/policy", "text"),
        ("https://a.example/policy and others", "text"),
        ("free", "text"),
    ],
)
async def test_a_policy_is_a_url_only_if_the_whole_text_is_one(
    kept: Kept, kept_database: Database, aiohttp_client: AiohttpClient, text: str, kind: str
) -> None:
    provider = await served(kept_database, kept.settings, aiohttp_client, content_policy=text)
    answer = await (await provider.client.get("/oai?verb=Identify")).text()
    assert f"<content><{kind}>{text}</{kind}></content>" in answer
