"""Rule files in forms and answers: partners choose their organisation's rules and see no server paths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.rule_lab.models import Rule
from harvester.vocabulary import RuleKind
from manager.rule_access import RULE_COLUMNS, rule_file_shown, rules_of, spellings_of
from web.auth.access import asked_for, who_asks
from web.auth.sessions import SignedIn
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.paging import number_in

RULES: Final = "rules"


@dataclass(frozen=True, kw_only=True)
class OwnRule:
    """A rule that the user may choose."""

    kind: RuleKind
    name: str
    path: str
    """Below the data folder."""
    spellings: frozenset[str]
    """All texts by which a request may name it; others are refused without a look at the disk."""
    file: str
    """The absolute path."""


def rule_chosen(text: str, kind: RuleKind, own: Sequence[OwnRule]) -> str:
    """Return the absolute path of the rule that the text names.

    Raises ValueError with the same words for a file of others, one of the other kind, and one that does not
    exist.
    """
    for one in own:
        if one.kind is kind and text in one.spellings:
            return one.file
    raise ValueError(_("Choose one of your organisation's rules; see the page Rules."))


async def rule_context(request: web.Request) -> dict[str, Any]:
    """Return the context in which rule files are validated.

    It has the data folder and the rules of a user of an organisation, or None instead of the rules if the
    user may name any file in the data folder.
    """
    who, data = who_asks(request), request.config_dict[SETTINGS].data
    own = None if who.sees_everything else await database_of(request).run(_own_rules, who, data)
    return {"data": data, RULES: own}


def rule_choices(
    context: Mapping[str, Any], values: Mapping[str, Any]
) -> Mapping[str, Sequence[tuple[str, str]]] | None:
    """Return the options of each rule field; None if the user may name any file in the data folder."""
    own: Sequence[OwnRule] | None = context[RULES]
    if own is None:
        return None
    found = {}
    for name, kind in RULE_COLUMNS.items():
        options = [("", _("none")), *((one.path, one.name) for one in own if one.kind is kind)]
        present = values.get(name) or ""
        # A file that an administrator chose stays visible; saving it is refused at its field.
        known = any(present == value for value, _title in options)
        found[name] = options if known else [*options, (present, present)]
    return found


async def rule_to_use(request: web.Request) -> dict[str, str]:
    """Return the form's value for the rule that a link names (`?rule=7`); nothing without one."""
    number = number_in(request, "rule")
    if number is None:
        return {}
    rule = await asked_for(request, Rule, number)
    return {name: rule.path for name, kind in RULE_COLUMNS.items() if kind is RuleKind(rule.kind)}


def rule_paths(request: web.Request, row: object) -> dict[str, str | None]:
    """Return the rule files that a schedule names, as the user may see them."""
    paths: dict[str, str | None] = {name: getattr(row, name) for name in RULE_COLUMNS}
    if who_asks(request).sees_everything:
        return paths
    data = request.config_dict[SETTINGS].data
    return {name: path and _without_place(path, data) for name, path in paths.items()}


def _without_place(path: str, data: Path) -> str:
    shown = rule_file_shown(path, data)
    return Path(shown).name if Path(shown).is_absolute() else shown


def _own_rules(session: Session, who: SignedIn, data: Path) -> list[OwnRule]:
    return [
        OwnRule(
            kind=RuleKind(rule.kind),
            name=rule.name,
            path=rule.path,
            spellings=frozenset({rule.path, *spellings_of(rule, data)}),
            file=str(data.resolve() / rule.path),
        )
        for rule in rules_of(session, who.organisation_id)
    ]
