"""What an import changes in a title: the stored and the new value of each field, in short."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from itertools import takewhile
from operator import eq
from typing import Any, Final

from provider.titles.imports import Difference
from provider.titles.licences import licence_by_key
from provider.titles.models import SeedKind
from web.site.formats import day
from web.site.i18n import _

_LONGEST: Final = 80
"""Characters of a value."""
_BEFORE: Final = 20
"""Characters that are shown before the first difference."""
_OF_SUBJECT: Final = ("number", "name", "name_en", "part", "part_en", "notation")


@dataclass(frozen=True, kw_only=True)
class ShownChange:
    """A changed field."""

    field: str
    """A key of `web.archive.pages_titles.words`' fields."""
    old: str
    new: str
    """Empty if the field becomes empty."""


def shown_changes(difference: Difference) -> list[ShownChange]:
    """Return the changed fields of a title; long values are cut around the first difference."""
    shown = []
    for field, values in difference.changes.items():
        old, new = (_in_words(field, value) for value in values)
        same = sum(takewhile(bool, map(eq, old, new)))
        start = same - _BEFORE if same > _LONGEST // 2 else 0
        shown.append(ShownChange(field=field, old=_cut(old, start), new=_cut(new, start)))
    return shown


def _cut(text: str, start: int) -> str:
    """Return the part of a text that begins at `start`, at most `_LONGEST` characters; empty stays empty."""
    end = start + _LONGEST
    return f"{'…' if start and text else ''}{text[start:end]}{'…' if len(text) > end else ''}"


def _in_words(field: str, value: Any) -> str:  # noqa: ANN401 the types of `Title`
    if isinstance(value, bool):
        return _("yes") if value is not (field == "gone") else _("no")
    if isinstance(value, date):
        return day(value)
    if isinstance(value, list):
        return "; ".join(_of_list(field, one) for one in value)
    if field == "licence":
        licence = licence_by_key(value or "")
        return licence.label if licence else ""
    return _(value) if field == "access" and value else value or ""


def _of_list(field: str, value: Any) -> str:  # noqa: ANN401 a text or a mapping
    if field == "subjects":
        return " · ".join(str(value[name]) for name in _OF_SUBJECT if name in value)
    return _seed(value) if field == "seeds" else str(value)


def _seed(seed: Mapping[str, Any]) -> str:
    kind = _("carve-out") if seed["kind"] == SeedKind.CARVE_OUT else _("main seed") if seed["main"] else ""
    dates = [day(seed[name]) if seed[name] else "" for name in ("harvested_from", "harvested_to")]
    details = ", ".join(filter(None, (kind, " – ".join(dates) if any(dates) else "")))  # noqa: RUF001 en dash
    return f"{seed['url']} ({details})" if details else str(seed["url"])
