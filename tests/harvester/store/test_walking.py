import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harvester.store.diff import walk

_NAMES = st.lists(
    st.lists(st.text("ab.-~+/é%", min_size=1, max_size=4), min_size=1, max_size=4).map("/".join),
    max_size=25,
)


def _make(base: Path, names: list[str]) -> set[bytes]:
    made = set()
    for name in names:
        path = base / os.path.normpath("/" + name).lstrip("/")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        except OSError:
            continue  # a folder of that name already exists, or a file is where a folder is needed
        made.add(os.fsencode(path.relative_to(base)))
    return made


@given(names=_NAMES, in_memory=st.integers(1, 5))
def test_files_are_sorted_by_the_bytes_of_their_paths_however_few_names_fit_in_memory(
    names: list[str], in_memory: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = _make(Path(folder), names)
        assert list(walk(folder, in_memory=in_memory)) == sorted(made)


def test_each_folder_is_reported_with_the_number_of_record_files_directly_in_it(tmp_path: Path) -> None:
    _make(tmp_path, ["a/1.xml", "a/2.xml", "a/2.xml~part", "a/starting_at_5/6.xml", "b/c/1.xml"])
    counts: dict[bytes, int] = {}
    list(walk(str(tmp_path), on_folder=lambda folder, files: counts.update({folder: files}), in_memory=2))
    assert counts == {b"": 0, b"a": 2, b"a/starting_at_5": 1, b"b": 0, b"b/c": 1}


def test_links_are_not_followed_and_folders_can_be_excluded(tmp_path: Path) -> None:
    _make(tmp_path, ["a/1.xml", "b/2.xml"])
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert list(walk(str(tmp_path), skip={str(tmp_path / "b")})) == [b"a/1.xml", b"loop"]


def test_a_missing_folder_has_no_files(tmp_path: Path) -> None:
    assert list(walk(str(tmp_path / "none"))) == []
