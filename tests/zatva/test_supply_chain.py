"""The locked versions are those that the project asks for, and each file has a hash."""

import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

_ROOT = Path(__file__).parents[2]
_EXTRAS = ("embedded", "server", "dev", "mutation")
_LOCKED = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?P<marker> ; .+)?"
    r"(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)


def _project() -> dict[str, Any]:
    return tomllib.loads((_ROOT / "pyproject.toml").read_text())


def _wanted(extra: str) -> list[Requirement]:
    """What pyproject.toml asks for with an extra, and what building the project takes."""
    project = _project()
    given = [*project["project"]["dependencies"], *project["build-system"]["requires"], "editables", "pip"]
    extras = [extra]
    for name in extras:
        for text in project["project"]["optional-dependencies"][name]:
            inner = re.fullmatch(r"zatva\[(\w+)\]", text)
            if inner:
                extras.append(inner[1])
            else:
                given.append(text)
    return [Requirement(text) for text in given]


def _locked(extra: str) -> dict[str, set[Version]]:
    """The versions by name; a name has several where they depend on the version of Python."""
    lines = (_ROOT / f"constraints/{extra}.txt").read_text().replace(" \\\n   ", "").splitlines()
    found: dict[str, set[Version]] = {}
    for line in lines:
        if not line.lstrip().startswith("#"):
            locked = _LOCKED.fullmatch(line)
            assert locked, line
            found.setdefault(locked["name"], set()).add(Version(locked["version"]))
    return found


@pytest.mark.parametrize("extra", _EXTRAS)
def test_every_dependency_is_locked_to_a_version_that_satisfies_it(extra: str) -> None:
    locked, wanted = _locked(extra), _wanted(extra)
    assert len(wanted) > 20
    for one in wanted:
        versions = locked.get(canonicalize_name(one.name), set())
        assert versions, f"{one} is missing: run script/lock"
        assert all(map(one.specifier.contains, versions)), f"{one} does not admit {versions}: run script/lock"


def test_the_extras_agree_on_versions() -> None:
    for smaller, larger in pairwise(map(_locked, _EXTRAS)):
        assert smaller.items() <= larger.items()


def test_the_locked_versions_name_no_index_or_address() -> None:
    """The user chooses the index; the hashes show whether it sends the right files."""
    for name in (*_EXTRAS, "uv"):
        text = (_ROOT / f"constraints/{name}.txt").read_text()
        assert not re.search(r"https?:|index-url|find-links|file:| @ |(^|\s)/", text)
