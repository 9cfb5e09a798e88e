"""PostgreSQL's query plans, and their parts whose cost would grow with the square of the rows."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import event

from oai.database import Database

Plan = dict[str, Any]
_UTILITIES = ("CREATE", "ANALYZE")
"""Statements without a plan."""


@contextlib.contextmanager
def plans_of(database: Database, *words: str, run: bool = False) -> Iterator[list[Plan]]:
    """Collect the plans of the block's statements that contain one of the words.

    With `run` each statement is executed again to get row counts in its plan; that execution is rolled back.
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
    """Return what a nested loop in a plan scans for each of its outer rows, or compares with each."""
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
    """Collect the rows that such statements in the block process; the numbers are there after the block."""
    work: list[int] = []
    with plans_of(database, *words, run=True) as plans:
        yield work
    work += map(_rows, plans)


def _rows(plan: Plan) -> int:
    """Return the rows that the nodes of an executed plan returned or discarded, over all loops."""
    thrown = sum(plan.get(f"Rows Removed by {by}", 0) for by in ("Filter", "Join Filter", "Index Recheck"))
    own = (plan["Actual Rows"] + thrown) * plan["Actual Loops"]
    return int(own) + sum(_rows(part) for part in plan.get("Plans", []))


def _whole_scans(plan: Plan) -> list[str]:
    if plan["Node Type"] == "Seq Scan":
        return [plan["Relation Name"]]
    if plan["Node Type"] == "CTE Scan":
        return [plan["CTE Name"]]
    return [name for part in plan.get("Plans", []) for name in _whole_scans(part)]
