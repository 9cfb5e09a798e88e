"""Filter files: which records are kept (UIUC OAI harvester architecture, "Filtering"; requirement FIL-1).

::

    <filters match="any">
      <selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'</selectionNamespaces>
      <filter xpath="//dc:subject" regexp="cultural" ignoreCase="true" invert="false"/>
    </filters>

`match` speaks of every filter *and* of every node that an XPath yields. With `any`, one node of one filter is
enough. With `all`, every node of every filter must match, and every filter must have at least one node.

`invert` turns the answer of each node about, and nothing else. A filter without nodes has no answer to turn,
so it never matches, inverted or not. The other reading, in which an inverted filter matches where nothing was
found, would make one word mean two things (each node's negation, and the whole filter's where there is none),
and it would keep every record of a wrong format, in which no XPath finds anything. Whoever wants the records
that lack something says so in XPath: `count(//dc:subject)` with the expression `^0$`.

A number, string or truth value that an XPath computes is one value, written as `string()` writes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from lxml import etree

from harvester.rules.rule_expressions import Expression
from harvester.rules.rule_files import RuleFile, RulePath, parse_rules, read_bytes
from oai.vocabulary import OAI_NAMESPACE

_HEADER: Final = f"{{{OAI_NAMESPACE}}}header"


class Match(StrEnum):
    """How many nodes must match."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Filter:
    """One `<filter>`."""

    path: RulePath
    expression: Expression
    invert: bool

    def answers(self, record: etree._Element) -> Iterator[bool]:
        """Give, for each node that the XPath yields, whether it matches. Raises RuleFileError."""
        return (self.expression.matches(found.value) is not self.invert for found in self.path.find(record))


@dataclass(frozen=True, kw_only=True)
class Filters:
    """A filter file, ready for use; safe to share between threads."""

    match: Match
    filters: tuple[Filter, ...]

    def accepts(self, record: etree._Element) -> bool:
        """Tell whether a record, `<record>` in the OAI namespace, is to be kept.

        A deletion is always accepted: it has no metadata to judge, and refusing it would leave a record that
        was kept earlier standing for ever. The record itself is left as it is.

        Raises RuleFileError where an XPath cannot be evaluated on this record.
        """
        if is_deletion(record):
            return True
        if self.match is Match.ANY:
            return any(any(each.answers(record)) for each in self.filters)
        return all(_some_and_all(each.answers(record)) for each in self.filters)


def load_filters(path: Path) -> Filters:
    """Read a filter file. Raises RuleFileError with file, line, reason and what to do."""
    return parse_filters(read_bytes(path), source=str(path))


def parse_filters(data: bytes, *, source: str) -> Filters:
    """Read the bytes of a filter file; `source` names it in errors. Raises RuleFileError."""
    file = parse_rules(data, source=source, root="filters")
    return Filters(match=_match(file), filters=tuple(_filter(file, rule) for rule in file.rules("filter")))


def is_deletion(record: etree._Element) -> bool:
    """Tell whether the record's header says `status="deleted"`."""
    header = record.find(_HEADER)
    return header is not None and header.get("status") == "deleted"


def _match(file: RuleFile) -> Match:
    # UIUC's own program took a file that does not say as "any".
    word = file.attributes(file.root, optional=("match",)).get("match", Match.ANY)
    try:
        return Match(word.strip().lower())
    except ValueError:
        raise file.fault(
            file.root, f"match={word!r} is not known; write match='any' or match='all'"
        ) from None


def _filter(file: RuleFile, rule: etree._Element) -> Filter:
    file.attributes(rule, required=("xpath", "regexp"), optional=("ignoreCase", "invert"))
    for child in file.children(rule, ()):
        raise file.fault(child, f"<{child.tag}> is not known in <filter>, which is empty")
    return Filter(
        path=file.path(rule),
        expression=file.expression(rule),
        invert=file.truth(rule, "invert"),
    )


def _some_and_all(answers: Iterator[bool]) -> bool:
    listed = list(answers)
    return bool(listed) and all(listed)
