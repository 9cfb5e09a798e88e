"""The pages of harvested records: listed, found, shown with their files."""

import hashlib
import uuid
import zlib

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import Record, SetMapping
from harvester.store.models import RecordVersion
from harvester.store.paths import identifier_key
from tests.harvester.bibliographic.marc import marcxml
from tests.web.conftest import Browser, Server
from tests.web.rows import BEGAN, a_repository, a_run


def _a_record(session: Session, number: int, **columns: object) -> Record:
    identifier = f"oai:telc.example:{number}"
    values = {
        "repository_id": 1,
        "identifier": identifier,
        "identifier_key": identifier_key(identifier),
        "datestamp": "2026-01-01",
        "metadata_prefix": "oai_dc",
        "harvest_time": BEGAN,
        **columns,
    }
    record = Record(**values)
    session.add(record)
    session.flush()
    return record


async def test_records_are_listed_page_by_page_and_found_by_identifier(
    server: Server, viewer: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        for number in range(60):
            _a_record(session, number, identifier_key=uuid.UUID(int=number))
        _a_record(session, 99, metadata_prefix="zzz", status="deleted")
        session.commit()

    _, first = await viewer.get("/repositories/1/records")
    further = first[first.index("?after=") :].partition('"')[0]
    _, second = await viewer.get(f"/repositories/1/records{further}")
    _, found = await viewer.get("/repositories/1/records?identifier=oai:telc.example:99")
    _, none = await viewer.get("/repositories/1/records?identifier=oai:telc.example:9")

    assert "Sorted by format" in first
    assert "Sorted by format" not in found
    assert "oai:telc.example:49" in first
    assert "oai:telc.example:50" not in first
    assert "oai:telc.example:50" in second
    assert 'href="/repositories/1/records"' in second
    assert "deleted" in found
    assert "oai:telc.example:49" not in found
    assert "No record with this identifier" in none


async def test_an_invalid_page_key_is_not_found(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    assert (await viewer.get("/repositories/1/records?after=oai_dc%7Cx"))[0] == 404


async def test_a_record_is_shown_with_its_sets_and_its_file(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        record = _a_record(session, 1, filename="a/1.xml")
        session.add(SetMapping(record_id=record.record_id, set_spec="maps"))
        folder = server.settings.store / telc.base_dir / "a"
        session.commit()
    folder.mkdir(parents=True)
    (folder / "1.xml").write_text("<record>Tel\u010d</record>")

    _, page = await viewer.get("/records/1")

    assert "&lt;record&gt;Tel\u010d&lt;/record&gt;" in page
    assert "maps" in page
    assert '<code class="copyable">oai:telc.example:1</code>' in page


async def test_a_marc_record_is_shown_as_lines_too(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        _a_record(session, 1, filename="a/1.xml")
        _a_record(session, 2, filename="a/2.xml")
        folder = server.settings.store / telc.base_dir / "a"
        session.commit()
    folder.mkdir(parents=True)
    head = '<record xmlns="http://www.openarchives.org/OAI/2.0/"><metadata>'
    marc = marcxml("245 10 $aStaré <mapy> :$bTelč")
    (folder / "1.xml").write_text(f"{head}{marc}</metadata></record>")
    (folder / "2.xml").write_text(f"{head}<dc><title>Telč</title></dc></metadata></record>")

    _, page = await viewer.get("/records/1")
    _, other = await viewer.get("/records/2")

    assert "MARC record" in page
    assert "\n245 10 $a Staré &lt;mapy&gt; : $b Telč</pre>" in page
    assert "MARC record" not in other


async def test_versions_are_compared_and_name_run_and_rule(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        record = _a_record(session, 1, filename="a/1.xml", size=20)
        other = _a_record(session, 2, filename="a/1.xml2")
        run = a_run(session, telc, harvest_id=7, run_started=BEGAN, filter_digest="f" * 64)
        for title in ("first", "second"):
            session.add(
                RecordVersion(
                    record_id=record.record_id,
                    harvest_id=7,
                    run_started=BEGAN,
                    datestamp="2025-01-01",
                    size=20,
                    content=zlib.compress(f"<r><title>{title}</title></r>".encode()),
                )
            )
        session.commit()
        oldest, elsewhere = min(session.scalars(select(RecordVersion.version_id))), other.record_id
        history_id, folder = run.history_id, server.settings.store / telc.base_dir / "a"
    folder.mkdir(parents=True)
    (folder / "1.xml").write_text("<r><title>third</title></r>")

    _, page = await viewer.get("/records/1")
    _, older = await viewer.get(f"/records/1?version={oldest}")
    _, newer = await viewer.get(f"/records/1?version={oldest + 1}")
    status, message = await viewer.get(f"/records/{elsewhere}?version={oldest}")

    assert page.count("what changed then") == 2
    assert f'href="/runs/{history_id}"' in page
    assert "f" * 16 in page
    assert "-  &lt;title&gt;first&lt;/title&gt;\n+  &lt;title&gt;second&lt;/title&gt;" in older
    assert "-  &lt;title&gt;second&lt;/title&gt;\n+  &lt;title&gt;third&lt;/title&gt;" in newer
    assert status == 404
    assert "not kept" in message


async def test_a_record_whose_file_is_missing_says_so(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        _a_record(session, 1, filename="a/1.xml")
        session.commit()

    status, page = await viewer.get("/records/1")

    assert status == 200
    assert "or its file is missing" in page


async def test_a_repository_without_records_says_how_to_get_them(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    _, page = await viewer.get("/repositories/1/records")

    assert "No records yet." in page
    assert "Run a harvest to get the first records." in page


async def test_the_records_of_a_repository_are_downloaded_as_xml(
    server: Server, viewer: Browser, owner: Browser
) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        head = '<record xmlns="http://www.openarchives.org/OAI/2.0/"><metadata>'
        data = f"{head}{marcxml('245 10 $aStaré mapy')}</metadata></record>".encode()
        digest = hashlib.sha256(data).digest()
        _a_record(session, 1, filename="1.xml", digest=digest, metadata_prefix="marc21")
        _a_record(session, 2, status="deleted")
        folder = server.settings.store / telc.base_dir
        session.commit()
    folder.mkdir(parents=True)
    (folder / "1.xml").write_bytes(data)

    _, page = await viewer.get("/repositories/1/records")
    _, whole = await viewer.get("/repositories/1/records.xml")
    _, deleted = await viewer.get("/repositories/1/records.xml?metadata_prefix=oai_dc")
    _, marc = await viewer.get("/repositories/1/marc.xml?metadata_prefix=marc21")
    status, reason = await viewer.get("/repositories/1/marc.xml?metadata_prefix=oai_dc")

    for link in ("records.xml", "records.xml?metadata_prefix=marc21", "marc.xml?metadata_prefix=marc21"):
        assert f'href="/repositories/1/{link}"' in page
    assert (whole.count("<header"), whole.count("Staré mapy")) == (1, 1)
    assert ("Staré mapy" in deleted, "oai:telc.example:2" in deleted) == (False, True)
    assert (marc.count("<collection "), marc.count("Staré mapy"), "oai:telc" in marc) == (1, 1, False)
    assert (status, "no MARC records in the format" in reason) == (404, True)
    for path in ("records.xml", "marc.xml"):
        assert (await owner.get(f"/repositories/1/{path}"))[0] == 404, "a partner sees only their own"
