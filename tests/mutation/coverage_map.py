"""Which tests run which line, and the tests that can notice a mutant."""

import ast
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final, Self
from urllib.parse import unquote

from coverage import CoverageData

from tests.mutation.mutants import PACKAGES, Mutant
from tests.mutation.recorder import FOLDER

TESTS: Final = tuple(
    f"tests/{name}" for name in ("provider", "harvester", "manager", "oai", "web", "interfaces")
)
# The children that tests fork or start are measured as well; `_exit` ends most of them.
_SETTINGS: Final = """[run]
parallel = true
data_file = {folder}/lines
context = ${{ZATVA_TEST_CONTEXT-}}
core = ctrace
patch = fork, _exit
include =
{include}
"""

Lines = dict[str, dict[int, set[str]]]
"""Tests by module and line."""


@dataclass(frozen=True, kw_only=True)
class CoverageMap:
    """The passing tests with their durations in seconds, and the tests of each line."""

    root: Path
    durations: dict[str, float] = field(default_factory=dict)
    lines: Lines = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    @classmethod
    def read(cls, path: Path, root: Path) -> Self:
        """Read a map that `write` has written; an absent file is an empty map."""
        result = cls(root=root)
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            tests = list(content["durations"])
            result.durations.update(content["durations"])
            for module, lines in content["lines"].items():
                for line, numbers in lines.items():
                    result.lines[module][int(line)] = {tests[number] for number in numbers}
        return result

    def write(self, path: Path) -> None:
        """Write the map as JSON; tests are numbers there, in the order of the durations."""
        number = {test: position for position, test in enumerate(self.durations)}
        lines = {
            module: {line: sorted(number[test] for test in tests) for line, tests in of_module.items()}
            for module, of_module in self.lines.items()
        }
        path.write_text(json.dumps({"durations": self.durations, "lines": lines}), encoding="utf-8")

    def measure(self, folder: Path, tests: Iterable[str], processes: int) -> None:
        """Run tests with coverage.py in an empty folder, and take their lines in place of earlier ones."""
        include = "\n".join(f"    {self.root}/{package}/*" for package in PACKAGES)
        settings = folder / "settings"
        settings.write_text(_SETTINGS.format(folder=folder, include=include), encoding="utf-8")
        words = ["-m", "pytest", "-q", "-p", "tests.mutation.recorder", "-m", "not slow and not browser"]
        spread = ["-n", str(processes), "--dist", "worksteal"] if processes > 1 else []
        environment = {**os.environ, "COVERAGE_PROCESS_START": str(settings), FOLDER: str(folder)}
        subprocess.run([sys.executable, *words, *spread, *tests], cwd=self.root, env=environment, check=False)
        self.take(folder)

    def take(self, folder: Path) -> None:
        """Take what the processes of a run have written."""
        measured: dict[str, float | None] = {}
        for file in folder.glob("durations-*.json"):
            measured |= json.loads(file.read_text(encoding="utf-8"))
        passed = {test: seconds for test, seconds in measured.items() if seconds is not None}
        for of_module in self.lines.values():
            for tests in of_module.values():
                tests.difference_update(measured)
        self.durations.update(passed)
        # A finished file has the hash of its content as suffix; a killed process leaves an unfinished one.
        for file in folder.glob("lines.*.H*"):
            for module, line, test in _lines_of(file, self.root):
                if test in passed:
                    self.lines[module][line].add(test)

    def tests_for(self, mutant: Mutant, *, most: int, seconds: float) -> list[str]:
        """Return the tests to run, those of the module's own test file first, then the quickest.

        The own tests that do not run the line come last: they may run it in a process that is killed before
        it writes its lines.
        """
        covering = self._covering(mutant)
        own = f"test_{PurePosixPath(mutant.module).stem}.py"
        own_tests = {test for test in self.durations if PurePosixPath(test.partition("::")[0]).name == own}

        def place(test: str) -> tuple[int, float, str]:
            rank = 2 if test not in covering else 1 if test not in own_tests else 0
            return rank, self.durations[test], test

        ordered = sorted(covering | own_tests, key=place)
        chosen: list[str] = []
        for test in ordered:
            if len(chosen) < most and (self.durations[test] <= seconds or not chosen):
                chosen.append(test)
                seconds -= self.durations[test]
        return chosen

    def _covering(self, mutant: Mutant) -> set[str]:
        text = (self.root / mutant.module).read_text(encoding="utf-8")
        place = Place.find(text, mutant.line)
        found = {test for line in place.lines for test in self._of(mutant.module, line)}
        for name in place.names:
            found |= {
                test for module, line in self._mentions.get(name, ()) for test in self._of(module, line)
            }
        return found

    def _of(self, module: str, line: int) -> set[str]:
        return self.lines.get(module, {}).get(line, set())

    @cached_property
    def _mentions(self) -> dict[str, list[tuple[str, int]]]:
        """Return the lines on which each name is written."""
        result: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for module, of_module in self.lines.items():
            text = (self.root / module).read_text(encoding="utf-8").splitlines()
            for line in of_module:
                for name in set(re.findall(r"\w+", text[line - 1] if line <= len(text) else "")):
                    result[name].append((module, line))
        return result


def _lines_of(file: Path, root: Path) -> Iterator[tuple[str, int, str]]:
    """Yield module, line and test; lines that ran while no test did are left out."""
    data = CoverageData(str(file))
    data.read()
    for path in data.measured_files():
        module = Path(path).relative_to(root).as_posix()
        for line, contexts in data.contexts_by_lineno(path).items():
            for context in contexts:
                # "context of the process|context of the moment": only a forked process has both.
                test = unquote(context.rpartition("|")[2])
                if test:
                    yield module, line, test


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a mutant is noticed: its lines, and the lines that mention a name it defines at import."""

    lines: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @classmethod
    def find(cls, text: str, line: int) -> Self:
        """Find the statement of a line. What runs at import is noticed where its names are used."""
        path = list(_path_to(ast.parse(text), line))
        if not path:
            return cls()
        statement = path[-1]
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            return cls(lines=_all_lines(statement.body), names=[statement.name])
        functions = [node for node in path if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        if functions:
            return cls(lines=_own_lines(statement))
        classes = [node for node in path if isinstance(node, ast.ClassDef)][-1:]
        names = [name for node in dict.fromkeys([*classes, statement]) for name in _defined(node)]
        return cls(lines=_all_lines(classes[0].body) if classes else [], names=names)


def _path_to(tree: ast.Module, line: int) -> Iterator[ast.stmt]:
    """Yield the statements that contain the line, the outermost first."""
    node: ast.AST | None = tree
    while node is not None:
        inside = [child for child in _statements_in(node) if line in _all_lines([child])]
        node = inside[0] if inside else None
        if node is not None:
            yield node


def _statements_in(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _all_lines(statements: list[ast.stmt]) -> list[int]:
    first = min((one.lineno for node in statements for one in _with_decorators(node)), default=0)
    return list(range(first, (statements[-1].end_lineno or 0) + 1))


def _with_decorators(node: ast.stmt) -> list[ast.stmt | ast.expr]:
    return [node, *getattr(node, "decorator_list", [])]


def _own_lines(statement: ast.stmt) -> list[int]:
    """Return the lines of a statement without those of the statements in it."""
    inner = {line for child in _statements_in(statement) for line in _all_lines([child])}
    return [line for line in _all_lines([statement]) if line not in inner]


def _defined(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.ClassDef(name=name):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return []
