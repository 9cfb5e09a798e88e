"""Explain a rule file's effect on a record: which values each rule found, and which of them matched."""

import copy
import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Final

from lxml import etree

from harvester.reading.answers import title_of
from harvester.rules.filters import FilterMatch, Filters, is_deletion, parse_filters
from harvester.rules.normalisation import Mappings, NewElement, NodeMapping, parse_mappings
from harvester.rules.rule_expressions import FoundNode
from harvester.rules.rule_files import RuleLimitError
from harvester.rules.rule_limits import RuleLimits
from harvester.vocabulary import RuleKind
from oai.errors import ZatvaError
from oai.vocabulary import OAI_NAMESPACE
from oai.xml import indented

_HEADER: Final = f"{{{OAI_NAMESPACE}}}header"
_SHOWN_VALUES: Final = 5
_LONGEST_VALUE: Final = 200
"""The number of characters of a value that are shown."""
_LONGEST_SIDE: Final = 20_000
"""The number of characters of a record that are shown."""
_MOST_COMPARISONS: Final = 20_000
_LONG: Final = 200
"""Lines from which difflib leaves out frequent ones."""


def read_rules(
    data: bytes, kind: RuleKind, *, source: str, limits: RuleLimits | None = None
) -> Filters | Mappings:
    """Parse the rules of a file. Raises RuleFileError with line, column, reason and what to do."""
    if kind is RuleKind.FILTER:
        return parse_filters(data, source=source, limits=limits)
    return parse_mappings(data, source=source, limits=limits)


class RuleEffect(StrEnum):
    """The effect of a rule file on a record."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    LIMIT = "limit met"
    """A rule exceeded a limit, so the effect is unknown."""

    @property
    def words(self) -> str:
        """The effect as people read it; *refused* is an older stored word."""
        return "filtered out" if self is RuleEffect.REFUSED else self.value


@dataclass(frozen=True, kw_only=True)
class Value:
    """The beginning of a value that an XPath found, and whether the rule's expression matched it."""

    text: str
    matched: bool


@dataclass(frozen=True, kw_only=True)
class RuleFinding:
    """What one rule found in the record."""

    rule: int
    """The number of the filter or new element, from 1 in the order of the file."""
    found: int
    """The number of nodes that its XPath yields."""
    matched: int
    values: Sequence[Value] = ()
    """The first values; those that matched come first."""
    added: Sequence[str] = ()
    """The elements that it added, as `name: value`."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """A record, the rules' effect on it, and the reasons."""

    identifier: str
    datestamp: str
    title: str
    fate: RuleEffect
    findings: Sequence[RuleFinding] = ()
    before: str = ""
    after: str = ""
    """Empty if the record is unchanged."""
    diff: str = ""
    trouble: ZatvaError | None = None
    """The limit that a rule exceeded."""


def explain(record: etree._Element, rules: Filters | Mappings) -> Explained:
    """Explain the rules' effect on a record, `<record>` in the OAI namespace, which is left unchanged.

    Raises RuleFileError if the rules cannot be used at all.
    """
    try:
        if isinstance(rules, Filters):
            return _filtered(record, rules)
        return _normalised(record, rules)
    except RuleLimitError as error:
        return _explained(record, RuleEffect.LIMIT, trouble=error)


def _filtered(record: etree._Element, rules: Filters) -> Explained:
    if is_deletion(record):
        return _explained(record, RuleEffect.ACCEPTED)
    evaluation = rules.evaluator.on(record)
    findings: list[RuleFinding] = []
    for number, one in enumerate(rules.filters, start=1):
        nodes = one.path.find(evaluation)
        answers = [one.expression.matches(evaluation, node.value) is not one.invert for node in nodes]
        findings.append(_finding(number, nodes, answers))
    if rules.match is FilterMatch.ANY:
        accepted = any(one.matched for one in findings)
    else:
        accepted = all(one.found and one.found == one.matched for one in findings)
    return _explained(record, RuleEffect.ACCEPTED if accepted else RuleEffect.REFUSED, findings=findings)


def _normalised(record: etree._Element, rules: Mappings) -> Explained:
    changed = copy.deepcopy(record)
    added: dict[int, list[str]] = {}

    def note(_mapping: NodeMapping, new: NewElement, value: str) -> None:
        name = f"{new.prefix}:{new.name}" if new.prefix else new.name
        added.setdefault(id(new), []).append(f"{name}: {value}")

    total = rules.apply(changed, note)
    # On the changed record, because a mapping may match what another mapping added.
    evaluation = rules.evaluator.on(changed)
    findings: list[RuleFinding] = []
    for mapping in rules.mappings:
        nodes = mapping.path.find(evaluation)
        for new in mapping.new_elements:
            answers = [new.expression.matches(evaluation, node.value) for node in nodes]
            findings.append(_finding(len(findings) + 1, nodes, answers, added.get(id(new), ())))
    fate = RuleEffect.CHANGED if total else RuleEffect.UNCHANGED
    return _explained(record, fate, findings=findings, changed=changed if total else None)


def _finding(
    number: int, nodes: Sequence[FoundNode], answers: Sequence[bool], added: Sequence[str] = ()
) -> RuleFinding:
    values = [
        Value(text=_short(node.value), matched=answer) for node, answer in zip(nodes, answers, strict=True)
    ]
    values.sort(key=lambda value: not value.matched)
    return RuleFinding(
        rule=number, found=len(nodes), matched=sum(answers), values=values[:_SHOWN_VALUES], added=list(added)
    )


def _explained(
    record: etree._Element,
    fate: RuleEffect,
    *,
    findings: Sequence[RuleFinding] = (),
    changed: etree._Element | None = None,
    trouble: ZatvaError | None = None,
) -> Explained:
    before = indented(record)
    after = "" if changed is None else indented(changed)
    header = record.find(_HEADER)
    return Explained(
        identifier=_text(header, "identifier"),
        datestamp=_text(header, "datestamp"),
        title=_short(title_of(record)),
        fate=fate,
        findings=findings,
        before=_side(before),
        after=_side(after),
        diff=_side(difference(before, after)) if after else "",
        trouble=trouble,
    )


def difference(before: str, after: str, *, names: tuple[str, str] = ("as it is", "as it would be")) -> str:
    """Return the difference between two texts, such as records formatted by `indented`, as a unified diff.

    If the texts have too many equal lines to compare each with each, everything from the first to the last
    difference is shown as replaced.
    """
    old, new = before.splitlines(), after.splitlines()
    if _comparisons(old, new) > _MOST_COMPARISONS:
        return "\n".join(_replaced(old, new, names))
    return "\n".join(difflib.unified_diff(old, new, *names, n=2, lineterm=""))


def _comparisons(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how often a repeated line of one text meets the same line of the other in difflib.

    It leaves out lines that make up more than a hundredth of a long text.
    """
    counts = Counter(new)
    frequent = len(new) // 100 + 1 if len(new) >= _LONG else len(new)
    return sum(counts[line] for line in old if 1 < counts[line] <= frequent)


def _replaced(old: Sequence[str], new: Sequence[str], names: tuple[str, str]) -> Iterator[str]:
    begin = _equal_lines(old, new)
    end = _equal_lines(reversed(old[begin:]), reversed(new[begin:]))
    removed, added = old[begin : len(old) - end], new[begin : len(new) - end]
    yield from (f"--- {names[0]}", f"+++ {names[1]}")
    yield f"@@ -{begin + 1},{len(removed)} +{begin + 1},{len(added)} @@"
    yield from (f"-{line}" for line in removed)
    yield from (f"+{line}" for line in added)


def _equal_lines(one: Iterable[str], other: Iterable[str]) -> int:
    """Return how many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _text(header: etree._Element | None, name: str) -> str:
    if header is None:
        return ""
    return (header.findtext(f"{{{OAI_NAMESPACE}}}{name}") or "").strip()


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _side(text: str) -> str:
    return text if len(text) <= _LONGEST_SIDE else f"{text[:_LONGEST_SIDE]}\n…"
