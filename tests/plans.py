"""The plans that PostgreSQL makes for statements, and what in them would grow with the square of the rows."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import event

from oai.database import Database

Plan = dict[str, Any]
_UTILITIES = ("CREATE", "ANALYZE")
"""Statements that have no plan."""


@contextlib.contextmanager
def plans_of(database: Database, *words: str, run: bool = False) -> Iterator[list[Plan]]:
    """Gather the plans of the statements in the block that have one of the words in them.

    With `run` each statement is run once more for its plan to have counts of rows; that run is rolled back.
    """
    found: list[Plan] = []
    options = "ANALYZE, FORMAT JSON" if run else "FORMAT JSON"

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if any(word in statement for word in words) and not statement.lstrip().startswith(_UTILITIES):
            with cursor.connection.cursor() as beside:
                beside.execute("SAVEPOINT plan")
                beside.execute(f"EXPLAIN ({options}) {statement}", parameters)
                plan = beside.fetchone()[0]
                beside.execute("ROLLBACK TO plan")
            found.append((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])

    event.listen(database.engine, "before_cursor_execute", explain)
    try:
        yield found
    finally:
        event.remove(database.engine, "before_cursor_execute", explain)


def repeated_scans(plan: Plan) -> list[str]:
    """What a nested loop goes through for each of its outer rows, or compares with each, in a plan."""
    found = []
    parts: list[Plan] = plan.get("Plans", [])
    if plan["Node Type"] == "Nested Loop":
        found += [plan["Join Filter"]] if "Join Filter" in plan else []
        found += _whole_scans(parts[1])
    for part in parts:
        found += repeated_scans(part)
    return found


@contextlib.contextmanager
def work_of(database: Database, *words: str) -> Iterator[list[int]]:
    """Gather how many rows such statements in the block go through; the numbers come behind the block."""
    work: list[int] = []
    with plans_of(database, *words, run=True) as plans:
        yield work
    work += map(_rows, plans)


def _rows(plan: Plan) -> int:
    """Rows that the parts of a plan that was run gave or threw away, in all their rounds."""
    thrown = sum(plan.get(f"Rows Removed by {by}", 0) for by in ("Filter", "Join Filter", "Index Recheck"))
    own = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return int(own) + sum(_rows(part) for part in plan.get("Plans", []))


def _whole_scans(plan: Plan) -> list[str]:
    if plan["Node Type"] == "Seq Scan":
        return [plan["Relation Name"]]
    if plan["Node Type"] == "CTE Scan":
        return [plan["CTE Name"]]
    return [name for part in plan.get("Plans", []) for name in _whole_scans(part)]
