import re
from pathlib import Path

import pytest
from multidict import MultiDict

from harvester.harvest_plan import Surface, carried
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.schedules.forms import ScheduleForm
from web.site.field_help import EXPLAINED
from web.site.forms import read_form, relative_folder


@pytest.mark.parametrize(
    ("typed", "kept"),
    [("mzk", "mzk"), ("libraries/mzk", "libraries/mzk"), ("./a//b/", "a/b"), ("Žatva 1", "Žatva 1")],
)
def test_a_folder_below_the_store_is_kept_as_a_relative_path(tmp_path: Path, typed: str, kept: str) -> None:
    assert relative_folder(typed, tmp_path / "store") == kept


def test_an_absolute_folder_in_the_store_becomes_relative(tmp_path: Path) -> None:
    assert relative_folder(str(tmp_path / "store" / "mzk"), tmp_path / "store") == "mzk"


@pytest.mark.parametrize(
    "typed", ["..", "../x", "a/../../x", "a/../b", "/etc", "/", ".", "a\0b", "a\nb", "x" * 1001]
)
def test_a_folder_outside_the_store_is_refused(tmp_path: Path, typed: str) -> None:
    with pytest.raises(ValueError, match=r"Enter|Leave"):
        relative_folder(typed, tmp_path / "store")


def test_a_link_that_leads_out_of_the_store_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "way-out").symlink_to(tmp_path)

    with pytest.raises(ValueError, match="below the store"):
        relative_folder("way-out/x", store)


def test_the_start_is_read_on_the_clock_of_the_time_zone(tmp_path: Path) -> None:
    asked, _ = read_form(
        ScheduleForm,
        MultiDict(
            repository_id="1",
            metadata_prefix="oai_dc",
            start_date="2027-07-01T08:00",
            time_zone="Europe/Prague",
        ),
        {"data": tmp_path},
    )

    assert asked is not None
    assert asked.start_date is not None
    assert asked.start_date.isoformat() == "2027-07-01T08:00:00+02:00"


def test_every_wrong_field_is_told_and_what_was_typed_is_kept(tmp_path: Path) -> None:
    typed = {
        "repository_id": "1",
        "metadata_prefix": "not a prefix",
        "set_spec": "a" * 5000,
        "frequency": "sometimes",
        "time_zone": "Telč",
        "start_date": "soon",
        "method": "7",
        "validation": "x",
        "filter_file_path": "nowhere.xml",
    }

    asked, form = read_form(ScheduleForm, MultiDict(typed), {"data": tmp_path})

    assert asked is None
    assert form.values == typed
    assert set(form.errors) == set(typed) - {"repository_id"}
    assert "'sometimes'" in form.errors["frequency"]
    assert "nowhere.xml" in form.errors["filter_file_path"]


def test_a_rule_file_is_checked_and_kept_with_its_whole_path(tmp_path: Path) -> None:
    good = '<filters match="any"><filter xpath="//x" regexp="y"/></filters>'
    (tmp_path / "good.xml").write_text(good)
    (tmp_path / "bad.xml").write_text("<filters>")
    fields = {"repository_id": "1", "metadata_prefix": "oai_dc"}

    asked, form = read_form(ScheduleForm, MultiDict(fields, filter_file_path="good.xml"), {"data": tmp_path})
    refused, bad = read_form(ScheduleForm, MultiDict(fields, filter_file_path="bad.xml"), {"data": tmp_path})

    assert asked is not None, form.errors
    assert asked.filter_file_path == str(tmp_path / "good.xml")
    assert refused is None
    assert "bad.xml" in bad.errors["filter_file_path"]


async def test_hard_fields_are_explained_beside_their_label(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    _, page = await administrator.get("/schedules/new?repository=1")
    explained = set(re.findall(r'<label for="([^"]+)">[^<]*</label>\s*<details class="what">', page))

    assert {"metadata_prefix", "set_spec", "incremental", "validation", "method", "overlap"} <= explained
    assert 'aria-label="What is “Validation”?"' in page


def test_each_explained_field_is_on_a_form() -> None:
    templates = "".join(file.read_text() for file in Path("web/templates").glob("*.html"))
    columns = {one.column for one in carried(Surface.FORM)}

    assert [name for name in EXPLAINED if f'"{name}"' not in templates and name not in columns] == []
