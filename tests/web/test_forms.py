import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from lxml import html
from multidict import MultiDict

from harvester.harvest_plan import Surface, carried
from provider.holdings.collections import add_collection
from tests.web.conftest import Browser, Server, browser_of
from tests.web.rows import a_repository, a_schedule
from tests.web.standing import a_world
from web.api.shapes import In
from web.schedules.forms import ScheduleForm
from web.site.field_help import EXPLAINED
from web.site.forms import FAULT_WORDS, FormModel, read_form, relative_folder


@pytest.mark.parametrize(
    ("typed", "kept"),
    [("mzk", "mzk"), ("libraries/mzk", "libraries/mzk"), ("./a//b/", "a/b"), ("Žatva 1", "Žatva 1")],
)
def test_a_folder_below_the_store_is_stored_as_a_relative_path(tmp_path: Path, typed: str, kept: str) -> None:
    assert relative_folder(typed, tmp_path / "store") == kept


def test_an_absolute_folder_in_the_store_is_stored_as_a_relative_path(tmp_path: Path) -> None:
    assert relative_folder(str(tmp_path / "store" / "mzk"), tmp_path / "store") == "mzk"


@pytest.mark.parametrize(
    "typed", ["..", "../x", "a/../../x", "a/../b", "/etc", "/", ".", "a\0b", "a\nb", "x" * 1001]
)
def test_a_folder_outside_the_store_is_refused(tmp_path: Path, typed: str) -> None:
    with pytest.raises(ValueError, match=r"Enter|Leave"):
        relative_folder(typed, tmp_path / "store")


def test_a_symbolic_link_out_of_the_store_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "way-out").symlink_to(tmp_path)

    with pytest.raises(ValueError, match="below the store"):
        relative_folder("way-out/x", store)


def test_the_start_is_read_in_the_time_zone_of_the_form(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("typed", "read"), [("1,5", 1.5), (" 0,25 ", 0.25), ("-1,5", -1.5), ("1,500", None), ("1,5,5", None)]
)
def test_a_decimal_comma_is_read_unless_it_may_separate_thousands(typed: str, read: float | None) -> None:
    class Shares(FormModel):
        share: float | None = None
        words: str

    found, form = read_form(Shares, MultiDict({"share": typed, "words": "1,5"}))
    assert (found and (found.share, found.words)) == (read and (read, "1,5"))
    assert ("share" in form.errors) == (read is None)


@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("\u200b\u200d", "Enter at least one visible character."),
        ("abc\u202ecba", "Remove control characters."),
        ("👩\u200d🌾 שלום\u200f", None),
        (" \u00a0 ", None),
    ],
)
def test_texts_without_visible_or_with_reordering_characters_are_refused(
    typed: str, fault: str | None
) -> None:
    class Named(FormModel):
        name: str

    assert read_form(Named, MultiDict({"name": typed}))[1].errors.get("name") == fault


def test_every_wrong_field_is_reported_and_the_entries_are_kept(tmp_path: Path) -> None:
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


def test_a_rule_file_is_checked_and_stored_with_its_full_path(tmp_path: Path) -> None:
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


async def test_difficult_fields_are_explained_next_to_their_labels(
    server: Server, administrator: Browser
) -> None:
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


_ERRORS: dict[str, set[str]] = {
    "bool": {"bool_type", "bool_parsing"},
    "date": {"date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"},
    "datetime": {
        "datetime_type",
        "datetime_parsing",
        "datetime_from_date_parsing",
        "datetime_object_invalid",
    },
    "decimal": {"decimal_type", "decimal_parsing", "finite_number"},
    "enum": {"enum"},
    "float": {"float_type", "float_parsing"},
    "int": {"int_type", "int_parsing", "int_parsing_size", "int_from_float"},
    "model-field": {"missing"},
    "str": {"string_type"},
    "tuple": {"tuple_type"},
}
"""What a value of each kind can be refused for, and each limit of a value."""
_NO_ERRORS = {
    "any",
    "default",
    "function-after",
    "function-before",
    "model",
    "model-fields",
    "no-info",
    "nullable",
    "with-info",
}
_LIMITS = {
    "allow_inf_nan": "finite_number",
    "ge": "greater_than_equal",
    "le": "less_than_equal",
    "max_length": "string_too_long",
    "min_length": "string_too_short",
    "pattern": "string_pattern_mismatch",
    "tz_constraint": "timezone_aware",
}


def test_each_kind_of_error_that_a_form_can_have_has_a_message() -> None:
    models = [model for model in _forms(FormModel) if not issubclass(model, In)]  # bodies of the API
    faults = set[str]().union(*(_faults(model.__pydantic_core_schema__) for model in models))

    assert len(models) > 40
    assert {"missing", "decimal_parsing", "string_pattern_mismatch"} <= faults
    assert faults == FAULT_WORDS.keys()


def _forms(model: type[FormModel]) -> Iterator[type[FormModel]]:
    for one in model.__subclasses__():
        yield one
        yield from _forms(one)


def _faults(schema: Any) -> set[str]:
    """The kinds of errors of a model's schema, as pydantic names them."""
    match schema:
        case {"type": str(kind)}:
            inner = [
                value for name, value in schema.items() if name not in {"type", "metadata", "serialization"}
            ]
            assert kind in _ERRORS.keys() | _NO_ERRORS, kind
            found = _ERRORS.get(kind, set()) | {_LIMITS[name] for name in schema.keys() & _LIMITS.keys()}
        case dict():
            inner, found = list(schema.values()), set()
        case list() | tuple():
            inner, found = list(schema), set()
        case _:
            return set()
    return found.union(*map(_faults, inner))


_EDITED: tuple[tuple[str, str, tuple[str, str], tuple[str, str]], ...] = (
    ("/schedules/1/edit", "", ("set_spec", "maps"), ("set_spec", "books")),
    ("/repositories/1/settings", "", ("repository_name", "Telč"), ("repository_name", "Znojmo")),
    ("/rules/1/edit", "", ("regexp-0", "map"), ("match", "all")),
    ("/alerts/rules/1", "", ("target", "jana@mzk.example"), ("target", "petr@mzk.example")),
    ("/imports/1", "", ("metadata_prefix", "oai_dc"), ("record_url_template", "https://x.example/{local}")),
    ("/imports/sets/1/edit", "", ("value-0", "atlas"), ("description", "Maps")),
    ("/admin/organisations/1", "", ("name", "Moravian Library"), ("max_records", "5")),
    ("/admin/users/2", "", ("role", "curator"), ("role", "administrator")),
    ("/archive/collections/collection:maps", "/name", ("name", "Pages"), ("description", "All of them")),
    ("/archive/collections/collection:maps", "/rule", ("access", "withheld"), ("access", "reading room")),
)
"""Page of an edited object, the end of the address of its form, and what two tabs change."""


@pytest.mark.parametrize(
    ("path", "end", "first", "second"), _EDITED, ids=[path + end for path, end, *_others in _EDITED]
)
async def test_an_outdated_form_undoes_another_change_only_after_confirmation(
    server: Server,
    administrator: Browser,
    path: str,
    end: str,
    first: tuple[str, str],
    second: tuple[str, str],
) -> None:
    with server.database.session() as session:
        a_world(session)
        add_collection(session, "collection:maps", name="Maps")
        session.commit()
    tab, other_tab = await _filled_in(administrator, path, end), await _filled_in(administrator, path, end)

    for _press in ("once", "again by a double click"):
        status, page, _ = await administrator.post(path + end, {**tab, first[0]: first[1]})
        assert status == 303, page
    status, page, _ = await administrator.post(path + end, {**other_tab, second[0]: second[1]})

    assert status == 409
    assert "Somebody has changed this in the meantime" in page
    if "/sets/" not in path and path != "/rules/1/edit":  # whose editors have several fields for one value
        assert re.search(r"in the meantime\.</strong> <span[^>]*>Alena</span>, <time", page)
        assert "<span>Now: " in page
    kept = await _filled_in(administrator, path, end)
    assert kept[first[0]] == first[1], "the first change is still there"
    shown = _fields(page, path + end if end else path)
    assert shown[second[0]] == second[1], "the form keeps what was entered"
    assert (await administrator.post(path + end, shown))[0] == 303, "whoever saves again means it"
    assert (await _filled_in(administrator, path, end))[second[0]] == second[1]


async def test_the_frequency_that_another_user_chose_is_in_words(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        number = a_schedule(session, a_repository(session), metadata_prefix="oai_dc").id
        session.commit()
    path = f"/schedules/{number}/edit"
    tab = await _filled_in(administrator, path, "")
    theirs = {name: value for name, value in tab.items() if name != "when"}
    status, page, _ = await administrator.post(path, {**theirs, "frequency": "weekly on saturday at 04:15"})
    assert status == 303, page

    await administrator.post("/account/language", {"language": "cs"})
    status, page, _ = await administrator.post(path, {**tab, "metadata_prefix": "marc21"})

    assert status == 409
    assert "weekly on saturday" not in "".join(re.findall("Nyní: [^<]*", page))
    assert "Nyní: každý týden v sobotu v 04:15" in page


async def test_a_sign_in_does_not_count_as_a_change_of_the_user(
    server: Server, administrator: Browser
) -> None:
    tab = await _filled_in(administrator, "/admin/users/2", "")
    assert (await administrator.post("/admin/users/2", {**tab, "role": "curator"}))[0] == 303
    async with browser_of(server) as viktor:
        await viktor.sign_in(server.link("Viktor"))
    status, page, _ = await administrator.post("/admin/users/2", {**tab, "role": "administrator"})

    assert status == 409
    assert re.search(r"in the meantime\.</strong> <span[^>]*>Alena</span>, <time", page)
    assert "<span>Now: curator: manages the archive</span>" in page, "the words of the choice"


@pytest.mark.parametrize("origin", ["", "https://elsewhere.example"])
async def test_entries_in_a_form_about_a_missing_object_are_shown_for_copying(
    administrator: Browser, origin: str
) -> None:
    form = {
        "csrf_token": await administrator.token(),
        "set_spec": "<maps> and atlases",
        "priority": "-3",
        "next": "/repositories/new",
        "time_zone": "Europe/Prague",
        "uri-1": "https://ns.example/marc",
        "base_url": "https://me:secret@telc.example/oai",
        "url": "https://telc.example/oai",
        "note": "Two:\r\nz3950://me:secret@h.example/a",
    }
    headers = {"Origin": origin or administrator.base_url}
    url = f"{administrator.base_url}/schedules/99/edit"
    async with administrator.http.post(url, data=form, headers=headers) as answer:
        page = await answer.text()
    assert answer.status == (403 if origin else 404)
    shown = ["&lt;maps&gt; and atlases", "https://telc.example/oai", "Two:\r\nz3950://h.example/a"]
    assert re.findall(r"<pre[^>]*>([^<]*)</pre>", page) == ([] if origin else shown)
    assert form["csrf_token"] not in page.partition("<main")[2].partition("</main")[0]


async def _filled_in(browser: Browser, path: str, end: str) -> dict[str, str]:
    """Return the fields of the form on a page, as a browser would submit them."""
    _, page = await browser.get(path)
    return _fields(page, path + end)


def _fields(page: str, address: str) -> dict[str, str]:
    tree: Any = html.fromstring(page)
    forms = [form for form in tree.forms if form.method == "POST"]
    (form,) = [form for form in forms if "based_on" in form.fields and form.action in (None, address)]
    return {name: str(value) for name, value in form.form_values() if name != "csrf_token"}


async def test_a_search_for_records_with_errors_keeps_its_entries_and_shows_the_errors(
    viewer: Browser,
) -> None:
    long = "w" * 1001
    status, page = await viewer.get(f"/records?find={long}&year_from=abc&year_to=2001&kind=book")

    assert status == 422
    tree: Any = html.fromstring(page)
    (form,) = [form for form in tree.forms if "year_from" in form.fields]
    typed = {name: form.fields[name] for name in ("find", "year_from", "year_to", "kind")}
    assert typed == {"find": long, "year_from": "abc", "year_to": "2001", "kind": "book"}
    faults = {one.get("id"): one.text_content().strip() for one in tree.find_class("fault")}
    assert faults == {
        "find-fault": "Enter at most 1000 characters.",
        "year_from-fault": "Enter a whole number.",
    }


@pytest.mark.parametrize("path", ["/repositories/1/harvest", "/schedules/1/sample"])
@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("abc", "Enter a whole number."),
        ("2.5", "Enter a whole number."),
        ("-5", "Enter a number of at least 1."),
        ("99999999999", "Enter a number of at most 100000."),
    ],
)
async def test_an_invalid_sample_size_is_reported_at_its_field(
    server: Server, administrator: Browser, path: str, typed: str, fault: str
) -> None:
    with server.database.session() as session:
        a_world(session)
        session.commit()

    status, page, _ = await administrator.post(path, {"metadata_prefix": "marc21", "records": typed})

    assert status == 422
    tree: Any = html.fromstring(page)
    assert tree.get_element_by_id("records").get("value") == typed
    assert tree.get_element_by_id("records-fault").text_content().strip() == fault


@pytest.mark.parametrize(
    ("path", "list_title", "told"),
    [
        ("/repositories/selected/remove?find=Mark", "Repositories", "Select repositories first."),
        ("/runs/remove?format=oai_dc", "History", "Select the entries to remove."),
        ("/admin/organisations/1/repositories?find=x", "mzk", "Select repositories first."),
        ("/imports", "Imports", "Choose at least one source."),
    ],
)
async def test_an_action_on_selected_rows_shows_the_list_again_if_none_is_selected(
    administrator: Browser, path: str, list_title: str, told: str
) -> None:
    status, page, _ = await administrator.post(path)

    assert status == 422
    tree: Any = html.fromstring(page)
    assert tree.findtext(".//h1") == list_title
    assert [one.text_content().strip() for one in tree.find_class("alarm")] == [told]
    assert tree.find_class("alarm")[0].get("tabindex") == "-1", "it gets the focus"
    for name, value in parse_qsl(path.partition("?")[2]):
        fields = tree.iterfind(f".//input[@name='{name}']")
        assert value in [field.get("value") for field in fields], "the list is filtered as before"
