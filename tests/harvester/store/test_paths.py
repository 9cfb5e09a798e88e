import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harvester.store.paths import numbered_path, placed, record_path
from tests.harvester.store.identifiers import identifier_of

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
_HOSTILE = st.lists(
    st.sampled_from(
        ["oai", ":", "/", "..", ".", "\\", "\0", "con", "NUL", "LPT1.txt", "starting_at_5", ".xml", "a", "A",
         "+",
         "++sha256", "%", "%41", "~2", "@marc21", " ", "é", "e\u0301", "x" * 130, "COM1", "-", "~part"]
    ),
    max_size=12,
).map("".join)  # fmt: skip
_IDENTIFIERS = st.one_of(_TEXT, _HOSTILE, _HOSTILE.map("oai:".__add__))
_RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(10))}


def test_the_uiuc_example_has_the_path_that_the_uiuc_page_gives() -> None:
    assert record_path("oai:ilLib:alliance:1234") == "ilLib/alliance/1234.xml"


def test_without_parse_id_all_files_are_in_one_folder() -> None:
    assert record_path("oai:ilLib:alliance:1234", parse_id=False) == "oai%3AilLib%3Aalliance%3A1234.xml"


@given(identifier=_IDENTIFIERS, parse_id=st.booleans())
def test_the_identifier_can_be_derived_from_a_path(identifier: str, parse_id: bool) -> None:  # noqa: FBT001 given so
    found = identifier_of(record_path(identifier, parse_id=parse_id), parse_id=parse_id)
    assert found == identifier or (found is None and len(identifier) > 10)


@given(
    identifier=_IDENTIFIERS, number=st.integers(2, 99), position=st.integers(0, 9), prefix=st.just("marc21")
)
def test_numbers_formats_and_full_folders_do_not_hide_the_identifier(
    identifier: str, number: int, position: int, prefix: str
) -> None:
    path = record_path(identifier, metadata_prefix=prefix)
    changed = numbered_path(placed(path, position, 3), number)
    assert identifier_of(changed) == identifier_of(path)


@given(first=_IDENTIFIERS, second=_IDENTIFIERS, parse_id=st.booleans())
def test_two_identifiers_never_share_a_path(first: str, second: str, parse_id: bool) -> None:  # noqa: FBT001
    assume(first != second)
    assert record_path(first, parse_id=parse_id) != record_path(second, parse_id=parse_id)


@given(first=_IDENTIFIERS, second=_IDENTIFIERS)
def test_a_file_is_never_where_another_identifier_needs_a_folder(first: str, second: str) -> None:
    assert not record_path(second).lower().startswith(record_path(first).lower() + "/")


@given(identifier=_IDENTIFIERS, parse_id=st.booleans())
def test_every_step_is_safe_on_any_file_system(identifier: str, parse_id: bool) -> None:  # noqa: FBT001
    path = record_path(identifier, parse_id=parse_id, metadata_prefix="marc21")
    assert path.isascii()
    assert not set(path) & set('\\:*?"<>| \0')
    assert len(path) < 1100
    for step in path.split("/"):
        assert 0 < len(step) < 200
        assert not step.startswith(".")
        assert not step.endswith(".")
        assert step.partition(".")[0].lower() not in _RESERVED


@pytest.mark.parametrize(
    "identifier", ["oai:../../etc/passwd", "/etc/passwd", "oai:a:..:..:b", "..", "oai::"]
)
def test_no_identifier_leads_out_of_the_base_directory(identifier: str) -> None:
    path = record_path(identifier)
    assert not path.startswith("/")
    assert ".." not in path.split("/")


def test_files_beyond_the_limit_of_a_folder_go_to_a_new_folder() -> None:
    places = [placed("a/b.xml", position, 5000) for position in (0, 4999, 5000, 12345)]
    assert places == ["a/b.xml", "a/b.xml", "a/starting_at_5000/b.xml", "a/starting_at_10000/b.xml"]


def test_an_over_long_identifier_is_named_by_its_digest() -> None:
    path = record_path("oai:" + "x" * 5000)
    assert path.startswith("++sha256/")
    assert identifier_of(path) is None


def test_formats_of_one_record_have_different_paths() -> None:
    assert record_path("oai:a:1", metadata_prefix="marc21") == "a/1@marc21.xml"
    assert record_path("oai:a:1@marc21") != record_path("oai:a:1", metadata_prefix="marc21")
