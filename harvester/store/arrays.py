"""Writes values as PostgreSQL arrays for parameters that are cast (`CAST(:names AS text[])`).

The driver does the same value by value in Python, which took a tenth of a whole harvest's time.
Source: PostgreSQL, "Array Input and Output Syntax".
"""

from collections.abc import Iterable, Sequence

_NULL = "NULL"


def of_texts(values: Sequence[str | None]) -> str:
    """An array of texts, with None as NULL. PostgreSQL refuses a text with the character NUL."""
    given = [value for value in values if value is not None]
    plain = "".join(given)
    if len(given) == len(values) and '"' not in plain and "\\" not in plain:
        return '{"' + '","'.join(given) + '"}' if given else "{}"
    return "{" + ",".join([_NULL if value is None else _quoted(value) for value in values]) + "}"


def of_keys(values: Iterable[str]) -> str:
    """An array of UUIDs, each given by its hexadecimal digits."""
    return "{" + ",".join(values) + "}"


def of_numbers(values: Iterable[int]) -> str:
    """An array of whole numbers."""
    return "{" + ",".join(map(str, values)) + "}"


def of_bytes(values: Iterable[bytes | None]) -> str:
    """An array of byte strings, with None as NULL."""
    return "{" + ",".join([_NULL if value is None else f'"\\\\x{value.hex()}"' for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
