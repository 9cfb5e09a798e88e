"""The mutants: every change that the operators of cosmic-ray make to behaviour, and a sample of them."""

import ast
import random
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.plugins import get_operator, operator_names

PACKAGES: Final = (
    "provider/protocol", "provider/holdings", "harvester/harvest", "harvester/store", "manager",
)  # fmt: skip
_LOGGERS: Final = re.compile(r"_?log(ger)?|\w+_log")
_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
# cosmic-ray also takes the star of a signature and of an unpacking for a multiplication.
_BINARY: Final = frozenset({"arith_expr", "term", "expr", "and_expr", "xor_expr", "shift_expr", "power"})
_TYPE_NAME: Final = re.compile(r"_?[A-Z]\w*[a-z]\w*")

Position = tuple[int, int]
"""Line from 1 and column from 0, in characters."""
Span = tuple[Position, Position]


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one module. `occurrence` counts from 0 what the operator finds in the module."""

    package: str
    module: str
    operator: str
    occurrence: int
    line: int
    column: int
    function: str

    @property
    def key(self) -> str:
        """Names the mutant, as long as its module does not change."""
        return f"{self.module}:{self.line}:{self.column} {self.operator}/{self.occurrence}"

    def source(self, root: Path) -> str | None:
        """Return the changed text of the module, or None if it is not Python or nothing changes."""
        before = (root / self.module).read_text(encoding="utf-8")
        after: str | None = MutationVisitor.mutate_code(before, _operators()[self.operator], self.occurrence)
        if after is None or after == before:
            return None
        try:
            with warnings.catch_warnings(action="ignore"):  # a literal that is compared with `is`
                compile(after, self.module, "exec", dont_inherit=True)
        except SyntaxError:
            return None
        return after


def sample(root: Path, number: int, seed: int) -> list[Mutant]:
    """Draw mutants at random, from each package in proportion to its mutants, in random order."""
    generator = random.Random(seed)
    pools = {package: list(_of_package(root, package)) for package in PACKAGES}
    drawn: list[Mutant] = []
    for package, share in _shares({package: len(pool) for package, pool in pools.items()}, number).items():
        order = generator.sample(pools[package], len(pools[package]))
        valid = (mutant for mutant in order if mutant.source(root) is not None)
        drawn += [mutant for mutant, _ in zip(valid, range(share), strict=False)]
    return generator.sample(drawn, len(drawn))


def _shares(sizes: Mapping[str, int], number: int) -> dict[str, int]:
    """Divide the number in proportion to the sizes; the largest remainders are rounded up."""
    total = sum(sizes.values())
    shares = {name: number * size // total for name, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda name: number * sizes[name] % total, reverse=True)
    for name in by_remainder[: number - sum(shares.values())]:
        shares[name] += 1
    return shares


def _of_package(root: Path, package: str) -> Iterator[Mutant]:
    for path in sorted((root / package).rglob("*.py")):
        yield from mutants_of(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix(), package)


def mutants_of(text: str, module: str, package: str) -> Iterator[Mutant]:
    """Yield the mutants of a module's text, without those at positions that have no behaviour."""
    excluded = list(_without_behaviour(text))
    # Most nodes are names, strings and lines, which these operators never change.
    nodes = [node for node in ast_nodes(get_ast(text)) if node.type not in {"name", "string", "newline"}]
    for name, operator in _operators().items():
        places = ((node, begin) for node in nodes for begin, _ in operator.mutation_positions(node))
        for occurrence, (node, begin) in enumerate(places):
            if node.type == "operator" and node.parent.type not in _BINARY:
                continue
            if not any(first <= begin < last for first, last in excluded):
                yield Mutant(
                    package=package,
                    module=module,
                    operator=name,
                    occurrence=occurrence,
                    line=begin[0],
                    column=begin[1],
                    function=ASTQuery(node).get_definition_name() or "",
                )


@cache
def _operators() -> dict[str, Any]:
    """The operators that need no arguments: all but two that replace and insert named variables."""
    classes = {name.partition("/")[2]: get_operator(name) for name in operator_names()}
    return {name: operator() for name, operator in classes.items() if not operator.arguments()}


def _without_behaviour(text: str) -> Iterator[Span]:
    """Yield what no test can notice or needs to: annotations, names of types, texts of logs."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        for part in _parts_without_behaviour(node):
            yield _position(lines, part.lineno, part.col_offset), _end(lines, part)


def _parts_without_behaviour(node: ast.AST) -> Iterable[ast.expr | ast.stmt]:
    match node:
        case (
            ast.AnnAssign(annotation=annotation)
            | ast.arg(annotation=ast.expr() as annotation)
            | ast.FunctionDef(returns=ast.expr() as annotation)
            | ast.AsyncFunctionDef(returns=ast.expr() as annotation)
        ):
            return [annotation]
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return [node]
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.BitOr()) as value):
            return [value] if _TYPE_NAME.fullmatch(name) else []
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
            return [node] if _LOGGERS.fullmatch(name) and method in _LOG_METHODS else []
    return []


def _position(lines: list[str], line: int, offset: int) -> Position:
    return line, len(lines[line - 1].encode()[:offset].decode())


def _end(lines: list[str], node: ast.expr | ast.stmt) -> Position:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return _position(lines, node.end_lineno, node.end_col_offset)
