"""A trial in words for people at a terminal: counts, and for each record the reason."""

from collections.abc import Iterator, Sequence

from harvester.rule_lab.explaining import Explained, Fate, Finding
from harvester.rule_lab.trying import RuleLine, Trial, lines_of
from harvester.rules.filtering import Filters
from harvester.rules.normalising import Mappings


def reasons(record: Explained, rules: Filters | Mappings) -> list[str]:
    """Why the rules do with the record what they do, a sentence for each rule."""
    return list(_reasons(record, lines_of(rules, [record])))


def trial_in_words(trial: Trial, *, most: int) -> str:
    """The trial, with the reasons for so many records of each fate."""
    lines = [_counts(trial)]
    if trial.ended:
        lines.append(f"ended early: {trial.ended}")
    lines += [
        f"  {name_of(line)}: found in {line.found_in:,}, matched in {line.matched_in:,}{_adds(line)}"
        for line in trial.lines
    ]
    lines += [f"never matches: {name_of(line)}" for line in trial.idle]
    lines += [f"could not be read: {one}" for one in trial.unreadable]
    for fate in Fate:
        shown = [record for record in trial.records if record.fate is fate][:most]
        for record in shown:
            lines += _record(record, trial.lines)
    return "\n".join(lines)


def name_of(line: RuleLine) -> str:
    """The rule, by its number and its expressions."""
    adds = f" adds {line.adds}" if line.adds else ""
    return f"{'new element' if line.adds else 'filter'} {line.rule}{adds} ({line.xpath} ~ {line.regexp})"


def _counts(trial: Trial) -> str:
    counts = ", ".join(f"{number:,} {word}" for word, number in sorted(trial.counts.items()))
    unread = f", {len(trial.unreadable):,} could not be read" if trial.unreadable else ""
    return f"{trial.tried:,} of {trial.samples:,} samples tested: {counts or 'no results'}{unread}"


def _adds(line: RuleLine) -> str:
    return f", added {line.added:,}" if line.adds else ""


def _record(record: Explained, lines: Sequence[RuleLine]) -> Iterator[str]:
    title = f"  {record.title}" if record.title else ""
    yield f"{record.fate.value}: {record.identifier}{title}"
    if record.trouble:
        yield f"  {record.trouble}"
    yield from (f"  {reason}" for reason in _reasons(record, lines))
    yield from (f"  {line}" for line in record.diff.splitlines())


def _reasons(record: Explained, lines: Sequence[RuleLine]) -> Iterator[str]:
    if not record.findings and record.fate is Fate.ACCEPTED:
        yield "deleted records are always accepted"
    for finding, line in zip(record.findings, lines, strict=False):
        yield f"{name_of(line)}: {_finding(finding)}"


def _finding(finding: Finding) -> str:
    if not finding.found:
        return "no values found"
    values = ", ".join(f"{value.text!r}{'' if value.matched else ' (no)'}" for value in finding.values)
    added = f"; added {'; '.join(finding.added)}" if finding.added else ""
    more = "" if finding.found == len(finding.values) else ", …"
    return f"{finding.matched:,} of {finding.found:,} matched: {values}{more}{added}"
