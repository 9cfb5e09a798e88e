"""Commands run in a folder of another user whose files have the names of modules."""

import ast
import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import oai
from tests.harvester.fake_repository import FakeRepository, serve
from tests.provider.archives import Page, write_pages

_ROOT = Path(oai.__file__).parents[1]
_PACKAGES = ("oai", "harvester", "provider", "manager", "web", "zatva")
_SCRIPT = """
import sys
from zatva.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""
"""The command as pip installs it: Python looks for modules in its folder, not in the working folder."""
_HOSTILE = (
    "oai", "harvester", "provider", "json", "lxml", "psycopg", "pickle", "socket", "runpy", "multiprocessing",
    "signal", "struct", "selectors", "aiohttp", "sitecustomize",
)  # fmt: skip
_SAFE = ([repr("-P")], [repr("-I")])
_TRAP = """
import os
with open(os.environ["ZATVA_TEST_TRAP"], "a") as trap:
    trap.write(__name__ + chr(10))
raise SystemExit("imported from the working folder")
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder that records every import from it."""
    (tmp_path / "zatva").write_text(_SCRIPT)
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in _HOSTILE:
        (folder / f"{name}.py").write_text(_TRAP)
    return folder


async def _run(environment: Mapping[str, str], hostile: Path, *words: str | Path) -> None:
    """Run the command in the folder; check that it succeeds without importing a file of the folder."""
    trap = hostile.parent / "trap"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, hostile.parent / "zatva", *words),
        cwd=hostile,
        env={**environment, "ZATVA_TEST_TRAP": str(trap)},
        stdout=PIPE,
        stderr=PIPE,
    )
    _, errors = await process.communicate()
    assert not trap.exists(), trap.read_text()
    assert process.returncode == 0, errors.decode()


async def test_harvest_processes_import_no_modules_from_the_working_folder(
    environment: dict[str, str], hostile: Path, tmp_path: Path
) -> None:
    async with serve(FakeRepository()) as fake:
        await _run(environment, hostile, "harvest", fake.url, "--out", tmp_path / "out")


async def test_indexing_processes_import_no_modules_from_the_working_folder(
    environment: dict[str, str], hostile: Path, tmp_path: Path
) -> None:
    for name in "ab":
        write_pages(tmp_path / f"{name}.warc.gz", [Page(url=f"http://{name}.example/")])
    files = (tmp_path / "a.warc.gz", tmp_path / "b.warc.gz")
    await _run(environment, hostile, "provider", "index", *files, "--jobs", "2")


def _modules(*words: str) -> Iterator[tuple[str, ast.AST]]:
    """The modules in which one of the words occurs, and their syntax."""
    for package in _PACKAGES:
        for path in (_ROOT / package).rglob("*.py"):
            content = path.read_text()
            if any(word in content for word in words):
                yield path.relative_to(_ROOT).as_posix(), ast.parse(content)


def _is_interpreter(node: ast.AST) -> bool:
    """Whether the node is `sys.executable`, or the word `python`."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and re.fullmatch(r"(.*/)?python[0-9.]*", node.value) is not None
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"


def test_every_interpreter_is_started_without_the_working_folder() -> None:
    found = set()
    for path, tree in _modules("python", "executable"):
        commands = [node for node in ast.walk(tree) if isinstance(node, ast.Tuple | ast.List)]
        safe = {id(one.elts[0]) for one in commands if [ast.unparse(word) for word in one.elts[1:2]] in _SAFE}
        for node in ast.walk(tree):
            if _is_interpreter(node):
                assert id(node) in safe, (path, getattr(node, "lineno", None))
                found.add(path)
    assert found == {"oai/child.py", "oai/embedded.py"}


def test_only_one_function_starts_multiprocessing() -> None:
    starters = {"get_context", "set_start_method", "Process", "Pool", "ProcessPoolExecutor"}
    found = set()
    for path, tree in _modules(*starters):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (name := ast.unparse(node.func).rpartition(".")[2]) in starters:
                contexts = [ast.unparse(given.value) for given in node.keywords if given.arg == "mp_context"]
                if name == "ProcessPoolExecutor":
                    assert contexts == ["context"], path
                    assert "spawning" in ast.unparse(tree), path
                else:
                    found.add((path, name))
    assert found == {("oai/child.py", "get_context")}
