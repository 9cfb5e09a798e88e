"""Titles with real processes: index, import, serve, check, harvest, and import into the catalogue."""

import json
import uuid
from pathlib import Path

import psycopg
import pytest
from lxml import etree
from sqlalchemy import func, select, text, update

from harvester.bibliographic.batches import as_json, values_of
from harvester.bibliographic.converters import metadata_in
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.marc21.validation import written_records
from harvester.bibliographic.models import BibliographicRow
from harvester.bibliographic.record_view import get_record, made_from
from harvester.models import Record
from oai.database import Database
from oai.datestamps import utc_now
from oai.settings import Settings
from provider.holdings.mark import advance_mark
from provider.protocol.formats.format import Site
from provider.titles.catalogue import title_by_key, titles_settings
from provider.titles.formats import write_marc21
from provider.titles.models import Title
from tests.commands import results, zatva
from tests.conftest import conninfo
from tests.end_to_end.processes import running
from tests.provider.archives import Page, write_pages
from tests.provider.titles.seeder_tables import Seeder

TITLES: list[dict[str, object]] = [
    {
        "key": "1",
        "name": "Příklad: časopis",
        "alternative_names": ["Example"],
        "publisher": "Nakladatelství Příklad",
        "annotation": "Časopis o příkladech.",
        "languages": ["cze"],
        "issn": "1234-5679",
        "catalogue_number": "web20132499695",
        "classification": ["304"],
        "subjects": [{"name": "Kultura", "number": 1, "part": "Kulturní politika", "notation": "304"}],
        "keywords": ["kultura"],
        "collections": ["Volby 2025"],
        "licence": "CC BY 4.0",
        "seeds": [{"url": "http://www.a.example/", "main": True}],
    },
    {"key": "2", "name": "Blog", "publisher": "Jiný", "seeds": [{"url": "http://www.a.example/blog/"}]},
    {"key": "3", "name": "Never archived", "seeds": [{"url": "http://www.b.example/"}]},
]


def write(file: Path, titles: list[dict[str, object]]) -> Path:
    file.write_text("".join(json.dumps(title) + "\n" for title in titles), encoding="utf-8")
    return file


def make_due(database: Database) -> None:
    with database.session() as session:
        session.execute(
            update(Title).where(~Title.deleted).values(datestamp=func.date_trunc("second", func.now()))
        )
        session.execute(
            text(
                "UPDATE title_membership AS own SET datestamp = title.datestamp FROM title"
                " WHERE title.title_id = own.title_id"
            )
        )
        session.commit()
        advance_mark(session)


def test_titles_are_served_checked_harvested_and_imported(
    environment: dict[str, str], database: Database, settings: Settings, tmp_path: Path
) -> None:
    write_pages(
        tmp_path / "a.warc.gz", [Page(url=f"http://www.a.example/{path}") for path in ("", "x", "blog/1")]
    )
    file = write(tmp_path / "titles.jsonl", TITLES)
    importing = ("provider", "titles", "import", file, "--source", "test")
    (planned,) = results(environment, *importing, "--dry-run")
    assert planned["counts"] == {
        "new": 3,
        "changed": 0,
        "gone": 0,
        "unchanged": 0,
        "not_taken": 0,
    }
    assert (planned["new_keys"], planned["gone_keys"]) == (["1", "2", "3"], [])
    assert results(environment, "provider", "titles", "list") == []
    results(environment, *importing)
    results(environment, "provider", "index", tmp_path / "a.warc.gz", "--jobs", "1")
    listed = results(environment, "provider", "titles", "list")
    assert [(one["name"], one["captures"], one["listed"]) for one in listed] == [
        ("Příklad: časopis", 2, True),
        ("Blog", 1, True),
        ("Never archived", 0, False),
    ]
    (again,) = results(environment, *importing)
    assert again["counts"]["unchanged"] == 3
    make_due(database)
    log = tmp_path / "provider.log"
    with running(environment, log, "provider", "serve", "--port", "0", ready="provider at") as (_, base_url):
        check = zatva(environment, "provider", "check", f"{base_url}/titles", "--polite", "0", "--json")
        assert check.returncode == 0, check.stdout[-2000:]
        harvest = ("harvest", f"{base_url}/titles", "--format", "marc21", "--out", tmp_path / "out")
        results(environment, *harvest)
    site = Site(base_url=f"{base_url}/titles", settings=titles_settings(settings.provider))
    assert_imported_as_written(database, site, tmp_path)


def assert_imported_as_written(database: Database, site: Site, folder: Path) -> None:
    """Both titles are stored and imported with each subfield and value that the provider writes."""
    with database.session() as session:
        rows = session.scalars(select(BibliographicRow)).all()
        assert sorted(row.title for row in rows) == ["Blog", "Příklad: časopis"]
        for row in rows:
            title = title_by_key(session, uuid.UUID(hex=row.control_number), utc_now())
            assert title is not None
            element = etree.fromstring(write_marc21(title, site))
            number = made_from(session, row)
            name = session.get_one(Record, number).filename
            assert name is not None
            stored = metadata_in((folder / "out" / name).read_bytes(), source=name)
            assert written_records(stored) == written_records(element)
            made, found = Marc21Converter().convert(element), get_record(session, row.bibliographic_id)
            assert as_json(found.contributors) == as_json(made.contributors)
            assert as_json(found.identifiers) == as_json(made.identifiers)
            values = json.loads(json.dumps(values_of(made)))
            assert {name: getattr(row, name) for name in values if hasattr(row, name)} == {
                name: value for name, value in values.items() if not name.startswith("words_")
            }


def test_invalid_titles_are_reported_by_exit_code_and_the_others_stay(
    environment: dict[str, str], tmp_path: Path
) -> None:
    file = write(tmp_path / "titles.jsonl", TITLES)
    results(environment, "provider", "titles", "import", file, "--source", "test")
    with file.open("w", encoding="utf-8") as cut:
        cut.write(json.dumps(TITLES[0]) + '\n{"key": "2", "na')
    done = zatva(environment, "provider", "titles", "import", file, "--source", "test")
    assert done.returncode == 3
    assert "not taken: line 2: cannot be read" in done.stdout
    assert "missing are kept: 1 entries could not be read" in done.stdout
    (shown,) = results(environment, "provider", "titles", "show", "test:2")
    assert (shown["name"], shown["gone"]) == ("Blog", False)
    unknown = zatva(environment, "provider", "titles", "show", "test:9")
    assert unknown.returncode == 2
    assert "no title 'test:9'" in unknown.stderr


def test_titles_are_imported_from_seeders_database(environment: dict[str, str], database: Database) -> None:
    address = conninfo(database.url.update_query_dict({"options": "-csearch_path=seeder"}))
    importing = ("provider", "titles", "import", address, "--source", "seeder")
    with psycopg.connect(conninfo(database.url), autocommit=True) as connection:
        seeder = Seeder(connection, address)
        seeder.create()
        source = seeder.source("success", "http://www.a.example/", name="Příklad")
        for state in ("declined", "declined", "voting"):
            seeder.source(state, "http://www.b.example/")
        (counts,) = [one["counts"] for one in results(environment, *importing)]
        assert counts == {"new": 1, "changed": 0, "gone": 0, "unchanged": 0, "not_taken": 3}
        seeder.change("source_source", source, name="Example")
        seeder.addresses("Closed", "www.a.example/x", "no address")
        seeder.addresses("Whitelist", "a.example")
        seeder.addresses("Unknown", "c.example")
        meanings = {"ZATVA_PROVIDER__SEEDER_LISTS": '{"Closed": "withheld", "2": "open"}'}
        again = zatva(environment | meanings, *importing, "--dry-run")
        connection.execute("ALTER TABLE source_seed DROP COLUMN url")
        broken = zatva(environment, *importing)
    assert again.returncode == 3
    assert "changed: Example (name)" in again.stdout
    assert "list 1 'Closed', line 2: 'no' is not an address: it has no host" in again.stdout
    assert "list: 1 'Closed': withheld, 1 address (1 added, 0 removed)\n" in again.stdout
    assert "list: 2 'Whitelist': open, 1 address; other rules close captures of 1 of them: a.example\n" in (
        again.stdout
    )
    assert "list 3 'Unknown' (for visibility, 1 address) has no meaning in provider.se" in again.stdout
    assert "not taken: its state is 'declined', not archived (2)" in again.stdout
    assert f"warning: key {source}: its state is 'success', but it has no valid contract" in again.stdout
    assert broken.returncode == 2
    assert "no column source_seed.url" in broken.stderr
    (shown,) = results(environment, "provider", "titles", "show", f"seeder:{source}")
    assert (shown["name"], shown["gone"]) == ("Příklad", False)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["postgresql://me:s3cret@127.0.0.1:1/seeder"], 4, "Seeder's database me@127.0.0.1:1/seeder: "),
        (["mysql://me:s3cret@127.0.0.1/seeder"], 2, "only a file, or Seeder's database"),
        (["postgresql://me:s3cret@127.0.0.1:1/seeder", "--format", "csv"], 2, "only a file, or Seeder's"),
        (["titles.csv", "--format", "seeder"], 2, "only a file, or Seeder's database"),
        (["titles.csv"], 2, "titles.csv: no such file"),
    ],
)
def test_an_unreadable_source_is_reported_without_its_password(
    shared_environment: dict[str, str], words: list[str], code: int, message: str
) -> None:
    done = zatva(
        shared_environment, "provider", "titles", "import", *words, "--source", "seeder", "--verbose"
    )
    assert done.returncode == code
    assert message in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
