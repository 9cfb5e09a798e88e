"""Filter rules proposed from examples: records to keep, and records to drop.

A proposal has one condition on one field, and is checked on the examples by the filter itself: it keeps all
that are to be kept, and drops all that are to be dropped.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from typing import Final

from lxml import etree

from harvester.rule_lab.explanation import read_rules
from harvester.rule_lab.fields import Field, values_of_record
from harvester.rule_lab.operators import Condition, Operator
from harvester.rule_lab.rows import FilterRow, RuleRows, xml_of
from harvester.rules.filters import FilterMatch, Filters
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind

_MOST: Final = 6
_OF_ONE_FIELD: Final = 2
_MOST_TRIED: Final = 300
"""Candidates that are run on the examples; each reads all of them."""
_MOST_WORDS: Final = 50
"""Of one field: words of a long text that fail may be thousands."""
_LONGEST: Final = 100
_MOST_VALUES: Final = 6
_LEAST_PREFIX: Final = 2
_WORD: Final = re.compile(r"\w{3,}")
_YEAR: Final = re.compile(r"[12][0-9]{3}(?![0-9])")

Values = Mapping[Field, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class RuleProposal:
    """A filter rule with one condition."""

    field: Field
    operator: Operator
    value: str
    """What the operator needs; several values are separated by ` | `."""
    rows: RuleRows

    @property
    def content(self) -> bytes:
        """The rule file."""
        return xml_of(self.rows)


def propose_rules(kept: Sequence[etree._Element], dropped: Sequence[etree._Element]) -> list[RuleProposal]:
    """Return rules that keep all of the former `<record>` elements and none of the latter, simplest first."""
    keep, drop = [values_of_record(one) for one in kept], [values_of_record(one) for one in dropped]
    fields = dict.fromkeys(field for record in (*keep, *drop) for field in record)
    found = sorted(
        (proposal for field in fields for proposal in _of_field(field, keep, drop)),
        key=lambda proposal: (list(Operator).index(proposal.operator), proposal.field.name, proposal.value),
    )
    chosen: list[RuleProposal] = []
    for proposal in found[:_MOST_TRIED]:
        others = [one for one in chosen if one.field == proposal.field]
        if len(others) < _OF_ONE_FIELD and len(chosen) < _MOST and _separates(proposal, kept, dropped):
            chosen.append(proposal)
    return chosen


def _of_field(field: Field, keep: Sequence[Values], drop: Sequence[Values]) -> Iterator[RuleProposal]:
    kept, dropped = [record.get(field, ()) for record in keep], [record.get(field, ()) for record in drop]
    for operator, value in _conditions(kept, dropped):
        if len(value) <= _LONGEST:
            row = _row(Condition(xpath=field.xpath, operator=operator, value=value))
            if row is None:
                continue
            rows = RuleRows(
                kind=RuleKind.FILTER, namespaces=field.namespaces, match=FilterMatch.ANY, filters=(row,)
            )
            yield RuleProposal(field=field, operator=operator, value=value, rows=rows)


def _row(condition: Condition) -> FilterRow | None:
    try:
        return condition.row(FilterMatch.ANY)
    except ValueError:
        return None  # with both kinds of quotation marks, it is no value to propose


def _conditions(
    kept: Sequence[Sequence[str]], dropped: Sequence[Sequence[str]]
) -> Iterator[tuple[Operator, str]]:
    ours, theirs = [set(values) for values in kept], [set(values) for values in dropped]
    of_ours, of_theirs = set().union(*ours), set().union(*theirs)
    for value in _common(ours) - of_theirs:
        yield Operator.EQUALS, value
    for value in _common(theirs) - of_ours:
        yield Operator.DIFFERS, value
    if all(ours) and not of_theirs:
        yield Operator.PRESENT, ""
    if all(theirs) and not of_ours:
        yield Operator.ABSENT, ""
    yield from _years(kept, dropped)
    several = of_ours - of_theirs
    # Fewer values than records: a title for each says nothing about others.
    if 1 < len(several) <= min(_MOST_VALUES, len(kept) - 1) and all(one & several for one in ours):
        yield Operator.ONE_OF, " | ".join(sorted(several))
    words, others = [_words(values) for values in kept], [_words(values) for values in dropped]
    for word in sorted(_common(words) - set().union(*others))[:_MOST_WORDS]:
        yield Operator.CONTAINS, word
    for word in sorted(_common(others) - set().union(*words))[:_MOST_WORDS]:
        yield Operator.LACKS, word
    begin = _beginning([values[0] for values in kept]).rstrip() if all(kept) else ""
    if len(begin) >= _LEAST_PREFIX:
        yield Operator.BEGINS, begin


def _years(kept: Sequence[Sequence[str]], dropped: Sequence[Sequence[str]]) -> Iterator[tuple[Operator, str]]:
    ours, theirs = ([_years_of(values) for values in some] for some in (kept, dropped))
    if not all((*ours, *theirs)):
        return
    # One value is enough: a record is kept for its latest year, or for its earliest one.
    if (since := min(map(max, ours))) > max(map(max, theirs)):
        yield Operator.SINCE, str(since)
    if (until := max(map(min, ours))) < min(map(min, theirs)):
        yield Operator.UNTIL, str(until)


def _years_of(values: Sequence[str]) -> list[int]:
    return [int(year[0]) for value in values if (year := _YEAR.match(value))]


def _beginning(texts: Sequence[str]) -> str:
    """Return the characters with which all of the texts begin."""
    if not texts:
        return ""
    first, last = min(texts), max(texts)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(one for one, _other in same)


def _common(sets: Sequence[set[str]]) -> set[str]:
    return reduce(set.intersection, sets) if sets else set()


def _words(values: Sequence[str]) -> set[str]:
    return {word.lower() for value in values for word in _WORD.findall(value)}


def _separates(
    proposal: RuleProposal, kept: Sequence[etree._Element], dropped: Sequence[etree._Element]
) -> bool:
    try:
        rules = read_rules(proposal.content, RuleKind.FILTER, source="the proposal")
        if not isinstance(rules, Filters):
            return False
        return all(map(rules.accepts, kept)) and not any(map(rules.accepts, dropped))
    except RuleFileError:
        return False  # a name or value that an expression cannot hold
