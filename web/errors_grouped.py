"""What could not be read, grouped by its kind."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harvester.running.models import Quarantined
from oai.failures import FailureCode
from web.failures import in_words


@dataclass(frozen=True, kw_only=True)
class Group:
    """Errors of one kind; the newest first."""

    code: FailureCode
    plain: str
    errors: Sequence[Quarantined]


def grouped(errors: Iterable[Quarantined]) -> list[Group]:
    """The errors by kind, the largest group first."""
    found: dict[FailureCode, list[Quarantined]] = {}
    for error in errors:
        found.setdefault(error.failure.code, []).append(error)
    groups = [
        Group(code=code, plain=in_words(those[0].failure).what, errors=those) for code, those in found.items()
    ]
    return sorted(groups, key=lambda group: -len(group.errors))
