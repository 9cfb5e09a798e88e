"""Try a rule file on sample records, in a process that is killed when it takes too long."""

import base64
import json
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from harvester.rule_lab.explanation import Explained, RuleEffect, RuleFinding, Value, read_rules
from harvester.rules.filters import Filters
from harvester.rules.normalisation import Mappings
from harvester.vocabulary import RuleKind
from oai.child import module_command
from oai.errors import Phrase, ZatvaError

_SECONDS_FOR_A_RECORD: Final = 2.0
_FROM_THE_RECORD: Final = re.compile(r"[\w@*](?:(?!//)[^(])*")
"""An XPath that begins with a name and has neither `//` nor a function."""


@dataclass(frozen=True, kw_only=True)
class RuleLine:
    """One filter, or one new element of a mapping, and its effect in the whole trial."""

    rule: int
    """From 1, in the order of the file."""
    xpath: str
    regexp: str
    adds: str
    """The name of the new element; empty for a filter."""
    found_in: int
    """The number of records in which its XPath found nodes."""
    matched_in: int
    """The number of records in which one of these nodes matched."""
    added: int

    @property
    def idle(self) -> bool:
        """Return whether it matched no sample."""
        return not self.matched_in

    @property
    def anywhere(self) -> str:
        """Return the path that finds the elements at any depth, if this one found none; otherwise empty."""
        return f"//{self.xpath}" if not self.found_in and _FROM_THE_RECORD.fullmatch(self.xpath) else ""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The effect of a rule file on the samples."""

    kind: RuleKind
    records: Sequence[Explained]
    counts: Mapping[str, int]
    """The counts by the values of `RuleEffect`."""
    lines: Sequence[RuleLine]
    samples: int
    """The number of samples."""
    unreadable: Sequence[str] = ()
    """The errors of those that could not be read."""
    ended: ZatvaError | None = None
    """Why the trial ended early; None if all samples were tried."""

    @property
    def tried(self) -> int:
        """Return the number of records that were tried."""
        return len(self.records)

    @property
    def idle(self) -> Sequence[RuleLine]:
        """Return the rules that matched no sample."""
        return [line for line in self.lines if line.idle] if self.records else []

    def as_json(self) -> dict[str, Any]:
        """Return the trial for programs."""
        return {
            "kind": self.kind.value,
            "samples": self.samples,
            "tried": self.tried,
            "counts": dict(self.counts),
            "rules": [asdict(line) for line in self.lines],
            "never_matched": [line.rule for line in self.idle],
            "unreadable": list(self.unreadable),
            "ended": str(self.ended or ""),
            "records": [{**asdict(one), "trouble": str(one.trouble or "")} for one in self.records],
        }


def try_rules(
    data: bytes,
    kind: RuleKind,
    records: Sequence[bytes],
    *,
    seconds: float,
    source: str = Phrase("the rules"),
    unreadable: Sequence[str] = (),
) -> Trial:
    """Try a rule file on records, each `<record>` as XML, for at most `seconds`.

    The results up to that time are returned. Raises RuleFileError if the file cannot be used.
    """
    rules = read_rules(data, kind, source=source)
    answers, ended = _answers(data, kind, records, seconds=seconds, source=source) if records else ([], None)
    explained = [_explained(one) for one in answers if "fate" in one]
    broken = [*unreadable, *(str(one["unreadable"]) for one in answers if "unreadable" in one)]
    return Trial(
        kind=kind,
        records=explained,
        counts=Counter(one.fate.value for one in explained),
        lines=lines_of(rules, explained),
        samples=len(records) + len(unreadable),
        unreadable=broken,
        ended=ended,
    )


def _answers(
    data: bytes, kind: RuleKind, records: Sequence[bytes], *, seconds: float, source: str
) -> tuple[list[dict[str, Any]], ZatvaError | None]:
    """Return the process's answers, and the reason if they are incomplete."""
    work = {
        "content": base64.b64encode(data).decode(),
        "kind": kind.value,
        "source": source,
        "seconds": min(seconds, _SECONDS_FOR_A_RECORD),
        "records": [record.decode("utf-8", errors="replace") for record in records],
    }
    # Without -P, a folder in the working directory with a package's name would be imported instead.
    command = module_command("harvester.rule_lab.trial_process")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            out, _ = process.communicate(json.dumps(work).encode(), timeout=seconds)
            late = False
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
            late = True
    answers = [json.loads(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
    if answers and "faulty" in answers[-1]:
        return answers, ZatvaError.of_parts(answers[-1]["faulty"])
    if late:
        return answers, ZatvaError("It took too long.")
    if process.returncode:
        return answers, ZatvaError("Its process ended, possibly because memory ran out.")
    return answers, None


def _explained(answer: Mapping[str, Any]) -> Explained:
    findings = [
        RuleFinding(**{**one, "values": [Value(**value) for value in one["values"]]})
        for one in answer["findings"]
    ]
    trouble = ZatvaError.of_parts(answer["trouble"]) if answer["trouble"] else None
    return Explained(
        **{**answer, "fate": RuleEffect(answer["fate"]), "findings": findings, "trouble": trouble}
    )


def lines_of(rules: Filters | Mappings, explained: Sequence[Explained]) -> list[RuleLine]:
    """Return the effect of each rule on these records."""
    found: Counter[int] = Counter()
    matched: Counter[int] = Counter()
    added: Counter[int] = Counter()
    for record in explained:
        for one in record.findings:
            found[one.rule] += bool(one.found)
            matched[one.rule] += bool(one.matched)
            added[one.rule] += len(one.added)
    return [
        RuleLine(
            rule=number,
            xpath=xpath,
            regexp=regexp,
            adds=adds,
            found_in=found[number],
            matched_in=matched[number],
            added=added[number],
        )
        for number, (xpath, regexp, adds) in enumerate(_facts(rules), start=1)
    ]


def _facts(rules: Filters | Mappings) -> list[tuple[str, str, str]]:
    if isinstance(rules, Filters):
        return [(one.path.path.expression, one.expression.expression.pattern, "") for one in rules.filters]
    return [
        (
            mapping.path.path.expression,
            new.expression.expression.pattern,
            f"{new.prefix}:{new.name}" if new.prefix else new.name,
        )
        for mapping in rules.mappings
        for new in mapping.new_elements
    ]
