"""Measures of the code: its modules, and the use of private words instead of terms (`script/measure`).

Each figure has a target. Missed targets are printed, but nothing fails: the figures inform whoever changes
the structure.
"""

import ast
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("oai", "provider", "harvester", "manager", "web", "zatva")
# Private expressions for which the field has established terms.
DIALECT: Final = re.compile(
    r"""\b(?:
        (?:is|are|was|were|be|been)\ told | tells? | anew | once\ more | gone\ on\ with | go(?:es)?\ on\ with
        | of\ that\ number | unless\ told | taken\ in | take\ in | set\ aside | stands?\ in | lies?\ in
        | cannot\ be\ had | nobody | for\ ever | that\ should\ not\ be | report\ what\ it\ says
        | make\ anything\ of | examin(?:e|es|ed|ing|ation|ations) | the\ house | brakes?
        | (?-i:[KMGT]iB)  # sizes have decimal units, as limits do
        )\b""",
    re.VERBOSE | re.IGNORECASE,
)
# What separates the pieces of a string that is written on several lines.
_SEAM: Final = re.compile(r"""["']\s*[fr]?["']|\\\n""")
# What is no prose: code, options, parameters of statements, and tags and comments of templates.
_CODE: Final = re.compile(r"`[^`]*`|--[\w-]+|:\w+|\{[{%#].*?[#%}]\}", re.DOTALL)
# Stored words, and captures, which are examined indeed.
_ALLOWED: Final = ("set aside", "captures examined")
_DOCS: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs")


def dialect_in(text: str) -> list[str]:
    """The words of the dialect in a text; a text without blanks is a name."""
    prose = _CODE.sub("", text)
    for allowed in _ALLOWED:
        prose = prose.replace(allowed, "")
    return DIALECT.findall(prose) if " " in text.strip() else []


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A figure and its maximum."""

    name: str
    value: float
    aim: float

    def __str__(self) -> str:
        mark = "" if self.value <= self.aim else "  over"
        return f"{self.name:<58} {self.value:>8,.0f}   at most {self.aim:,.0f}{mark}"


def measures() -> Iterator[Measure]:
    """Yield all measures."""
    trees = _trees()
    yield from _of_modules(trees)
    yield from _of_functions(trees)
    yield from _of_words(trees)
    tests = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")]
    yield Measure(name="private names that tests patch", value=sum(map(_patched, tests)), aim=0)


def measures_of_words() -> Iterator[Measure]:
    """Yield the measures of words alone; most modules have none of the words and need not be parsed."""
    texts = {path: path.read_text(encoding="utf-8") for path in _modules()}
    yield from _of_words(
        {path: ast.parse(text) for path, text in texts.items() if DIALECT.search(_SEAM.sub("", text))}
    )


def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in _modules()}


def _modules() -> list[Path]:
    """Return the modules that are not empty."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(path for path in found if path.read_text(encoding="utf-8").count("\n") > 1)


def _of_modules(trees: Mapping[Path, ast.Module]) -> Iterator[Measure]:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    importers = [graph.find_modules_that_directly_import(name) for name in graph.modules]
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in trees]
    names = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    yield Measure(name="lines of the product", value=sum(lines), aim=73_000)
    yield Measure(name="modules", value=len(trees), aim=450)
    yield Measure(name="modules of under 40 lines", value=sum(count < 40 for count in lines), aim=20)
    yield Measure(name="modules of over 450 lines", value=sum(count > 450 for count in lines), aim=0)
    yield Measure(name="modules with one importer", value=sum(len(one) == 1 for one in importers), aim=110)
    yield Measure(
        name="modules named by what they do (…ing)",
        value=sum(path.stem.endswith("ing") for path in trees),
        aim=40,
    )
    yield Measure(
        name="public names of three classes or more", value=sum(count > 2 for count in names.values()), aim=8
    )


def _of_functions(trees: Mapping[Path, ast.Module]) -> Iterator[Measure]:
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths = sorted(_length(node) for node in functions)
    yield Measure(name="lines of a function, median", value=statistics.median(lengths), aim=9)
    yield Measure(name="lines of a function, nine of ten", value=lengths[len(lengths) * 9 // 10], aim=22)
    yield Measure(name="functions of over 40 lines", value=sum(length > 40 for length in lengths), aim=0)
    asserts = sum(isinstance(node, ast.Assert) for tree in trees.values() for node in ast.walk(tree))
    yield Measure(name="asserts in the product", value=asserts, aim=0)


def _of_words(trees: Mapping[Path, ast.Module]) -> Iterator[Measure]:
    strings = docstrings = 0
    for tree in trees.values():
        documented = set()
        for node in ast.walk(tree):  # a statement comes before its value
            if isinstance(node, ast.Expr):
                documented.add(node.value)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = len(dialect_in(node.value))
                docstrings += found if node in documented else 0
                strings += found if node not in documented else 0
    for path in (ROOT / "web").rglob("*.html"):
        strings += len(dialect_in(path.read_text(encoding="utf-8")))
    yield Measure(name="words of the dialect in docs", value=_in_docs(), aim=0)
    yield Measure(name="words of the dialect in strings and templates", value=strings, aim=0)
    yield Measure(name="words of the dialect in docstrings", value=docstrings, aim=49)


def _in_docs() -> int:
    found = 0
    for name in _DOCS:
        place = ROOT / name
        for path in [place] if place.is_file() else place.rglob("*.md"):
            if "decisions" not in path.parts:
                found += len(dialect_in(path.read_text(encoding="utf-8")))
    return found


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _patched(tree: ast.Module) -> int:
    """Count calls of `monkeypatch.setattr` or `mock.patch` with a private name."""
    found = 0
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "setattr"
        ):
            texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
            found += any(str(text).rpartition(".")[2].startswith("_") for text in texts)
    return found


if __name__ == "__main__":
    for measure in measures():
        print(measure)  # noqa: T201 output of the command
