"""The plans that PostgreSQL makes for statements, and what in them would grow with the square of the rows."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import event

from oai.database import Database

Plan = dict[str, Any]


@contextlib.contextmanager
def plans_of(database: Database, *words: str) -> Iterator[list[Plan]]:
    """Gather the plans of the statements in the block that have one of the words in them."""
    found: list[Plan] = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if any(word in statement for word in words) and not statement.startswith(("CREATE", "ANALYZE")):
            with cursor.connection.cursor() as beside:
                beside.execute("EXPLAIN (FORMAT JSON) " + statement, parameters)
                plan = beside.fetchone()[0]
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


def _whole_scans(plan: Plan) -> list[str]:
    if plan["Node Type"] == "Seq Scan":
        return [plan["Relation Name"]]
    if plan["Node Type"] == "CTE Scan":
        return [plan["CTE Name"]]
    return [name for part in plan.get("Plans", []) for name in _whole_scans(part)]
