"""Preview of a replay: what changed rules would do with the stored answers of a run, without doing it.

Records are read from the answers, filtered and normalised as in a replay, and compared with what is stored;
nothing is written. Validation is not part of it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.client.decoding import TooLargeError, decode
from harvester.client.exchange import HttpRequest, RawReply
from harvester.harvest.fetch import names_in
from harvester.harvest.page_writer import effect_of
from harvester.harvest.request import HarvestRequest
from harvester.harvest.source import open_kept
from harvester.harvest.superseded import without_superseded
from harvester.harvest.transform import Entry, Prepared, Transformer
from harvester.reading import replies
from harvester.reading.answers import Page, Record
from harvester.reading.errors import ClientError, OaiError
from harvester.repositories import base_folder, get_repository
from harvester.rule_lab.explanation import Explained, RuleEffect, RuleFinding, difference, explain
from harvester.rule_lab.trial import RuleLine, Trial, lines_of
from harvester.rules.filters import Filters
from harvester.rules.normalisation import Mappings
from harvester.rules.rule_limits import RuleLimits
from harvester.store.paths import identifier_digits
from harvester.store.records import KnownRecord, known_records
from harvester.vocabulary import Level, RecordStatus
from oai.errors import MalformedXmlError, UsageError
from oai.limits import AnswerLimits
from oai.settings import Settings
from oai.vocabulary import Verb
from oai.xml import indented, parse


class ReplayEffect(StrEnum):
    """The effect of a replay on a record."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    LEFT_OUT_NOW = "left out now"
    """The filter no longer accepts it; the stored record stays, because a replay removes nothing."""
    LEFT_OUT = "left out"
    """The filter does not accept it, and it is not stored."""
    DELETED = "deleted"
    SUPERSEDED = "superseded"
    """A later harvest has stored another version, which stays."""
    LIMIT = "limit met"
    """A rule exceeded a limit, so the effect is unknown."""


@dataclass(frozen=True, kw_only=True)
class ReplaySample:
    """A record on which the replay would have this effect."""

    identifier: str
    why: str = ""
    diff: str = ""
    """For an update: the difference from the stored record to the new one."""


@dataclass(kw_only=True)
class ReplayPreview:
    """What a replay would change."""

    run: int
    repository_id: int
    counts: Counter[str] = field(default_factory=Counter)
    """The counts by the values of `ReplayEffect`."""
    samples: dict[str, list[ReplaySample]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """Answers, and parts of answers, that could not be read."""

    @property
    def changes(self) -> int:
        """Return how many records the replay would write."""
        return sum(
            self.counts[one.value] for one in (ReplayEffect.NEW, ReplayEffect.UPDATED, ReplayEffect.DELETED)
        )

    def as_json(self) -> dict[str, Any]:
        """Return the preview for programs."""
        return {
            "run": self.run,
            "repository_id": self.repository_id,
            "counts": {one.value: self.counts[one.value] for one in ReplayEffect},
            "samples": {word: [asdict(one) for one in found] for word, found in self.samples.items()},
            "faults": self.faults,
        }


def reasons(record: Explained, rules: Filters | Mappings) -> list[str]:
    """Return the reasons for the rules' effect on the record, one sentence per rule."""
    return list(_reasons(record, lines_of(rules, [record])))


def trial_in_words(trial: Trial, *, most: int) -> str:
    """Return the trial in words, with the reasons for up to `most` records of each fate."""
    lines = [_counts(trial)]
    if trial.ended:
        lines.append(f"ended early: {trial.ended}")
    lines += [
        f"  {name_of(line)}: found in {line.found_in:,}, matched in {line.matched_in:,}{_adds(line)}"
        for line in trial.lines
    ]
    lines += [f"never matches: {name_of(line)}" for line in trial.idle]
    lines += [f"could not be read: {one}" for one in trial.unreadable]
    for fate in RuleEffect:
        shown = [record for record in trial.records if record.fate is fate][:most]
        for record in shown:
            lines += _record(record, trial.lines)
    return "\n".join(lines)


def name_of(line: RuleLine) -> str:
    """Return the rule as its number and its expressions."""
    adds = f" adds {line.adds}" if line.adds else ""
    return f"{'new element' if line.adds else 'filter'} {line.rule}{adds} ({line.xpath} ~ {line.regexp})"


def _counts(trial: Trial) -> str:
    counts = ", ".join(
        f"{number:,} {RuleEffect(fate).words}" for fate, number in sorted(trial.counts.items())
    )
    unread = f", {len(trial.unreadable):,} could not be read" if trial.unreadable else ""
    return f"{trial.tried:,} of {trial.samples:,} samples tested: {counts or 'no results'}{unread}"


def _adds(line: RuleLine) -> str:
    return f", added {line.added:,}" if line.adds else ""


def _record(record: Explained, lines: Sequence[RuleLine]) -> Iterator[str]:
    title = f"  {record.title}" if record.title else ""
    yield f"{record.fate.words}: {record.identifier}{title}"
    if record.trouble:
        yield f"  {record.trouble}"
    yield from (f"  {reason}" for reason in _reasons(record, lines))
    yield from (f"  {line}" for line in record.diff.splitlines())


def _reasons(record: Explained, lines: Sequence[RuleLine]) -> Iterator[str]:
    if not record.findings and record.fate is RuleEffect.ACCEPTED:
        yield "deleted records are always accepted"
    for finding, line in zip(record.findings, lines, strict=False):
        yield f"{name_of(line)}: {_finding(finding)}"


def _finding(finding: RuleFinding) -> str:
    if not finding.found:
        return "no values found"
    values = ", ".join(f"{value.text!r}{'' if value.matched else ' (no)'}" for value in finding.values)
    added = f"; added {'; '.join(finding.added)}" if finding.added else ""
    more = "" if finding.found == len(finding.values) else ", …"
    return f"{finding.matched:,} of {finding.found:,} matched: {values}{more}{added}"


_SHOWN: Final = 5
"""The number of samples of each kind."""
_MOST_FAULTS: Final = 100
_SUCCESS: Final = 200
_VERBS: Final = {verb.value: verb for verb in (Verb.LIST_RECORDS, Verb.GET_RECORD, Verb.LIST_IDENTIFIERS)}
_OUTCOMES: Final = {
    "new": ReplayEffect.NEW,
    "updated": ReplayEffect.UPDATED,
    "unchanged": ReplayEffect.UNCHANGED,
    "deleted": ReplayEffect.DELETED,
    "tombstones": ReplayEffect.UNCHANGED,
}
_SHOWABLE: Final = frozenset(
    {
        ReplayEffect.NEW,
        ReplayEffect.UPDATED,
        ReplayEffect.LEFT_OUT_NOW,
        ReplayEffect.DELETED,
        ReplayEffect.LIMIT,
    }
)


def preview_replay(session: Session, settings: Settings, request: HarvestRequest) -> ReplayPreview:
    """Return what the requested replay would change; `request` is as returned by `replay_request`.

    Raises UsageError if no answers of the run are stored, and RuleFileError for invalid rules.
    """
    if request.replay is None:
        raise UsageError("no run to preview; give the number of a run")
    repository = get_repository(session, request.repository_id)
    if access_of(repository.protocol).query is not None:
        raise UsageError(
            "a replay can be previewed for OAI-PMH only; to run it without a preview, use `zatva "
            f"harvest {request.repository_id} --replay {request.replay}`"
        )
    found = ReplayPreview(run=request.replay, repository_id=request.repository_id)
    limits = RuleLimits(seconds=settings.harvester.rule_seconds)
    transformer = replace(request, validation=Level.LOOSE).transformer(limits, data=settings.data)
    folder = base_folder(repository, settings)
    looking = _Looking(session=session, request=request, transformer=transformer, folder=folder, found=found)
    for asked, reply in open_kept(session, settings, request.replay).exchanges():
        arguments = _arguments(asked)
        if not looking.is_of_list(arguments):
            continue
        try:
            page = _page(arguments, asked.url, reply, settings.harvester.limits)
        except OaiError:
            continue  # such as noRecordsMatch: an answer without records
        except (ClientError, TooLargeError) as error:
            looking.note_fault(str(error))
            continue
        if page is not None:
            looking.look_at(page)
    found.counts = Counter(one.value for one in looking.outcomes.values())
    return found


def _arguments(asked: HttpRequest) -> dict[str, str]:
    """Return the arguments of the request."""
    return dict(parse_qsl(asked.body.decode("ascii", errors="replace") or urlsplit(asked.url).query))


def _page(arguments: dict[str, str], url: str, reply: RawReply, limits: AnswerLimits) -> Page | None:
    """Return the records in the answer; None if it is an answer of another verb."""
    verb = _VERBS.get(arguments.get("verb", ""))
    if verb is None or reply.status != _SUCCESS:
        return None
    body = decode(reply.body, reply.header("Content-Encoding"), limits).body[:]
    kind = reply.header("Content-Type")
    return replies.read_page(body, verb, url=url, content_type=kind, loose=True)


@dataclass(kw_only=True)
class _Looking:
    """A preview in progress; of records that occur repeatedly, the last one counts."""

    session: Session
    request: HarvestRequest
    transformer: Transformer
    folder: Path
    found: ReplayPreview
    outcomes: dict[str, ReplayEffect] = field(default_factory=dict)
    """By the hexadecimal digits of the identifiers' keys."""
    _listed: set[str] = field(default_factory=set)
    """Keys of the identifiers in lists, also in broken parts."""

    def is_of_list(self, arguments: dict[str, str]) -> bool:
        """Return whether a replay uses the answer: it has no need of GetRecord for what no list has.

        A full harvest requests such records to find out whether they may be deleted.
        """
        alone = arguments.get("verb") == Verb.GET_RECORD
        return not alone or identifier_digits(arguments.get("identifier", "")) in self._listed

    def look_at(self, page: Page) -> None:
        """Record the effect on each of the page's records."""
        self._listed.update(identifier_digits(header.identifier) for header in page.headers)
        for fault in page.faults:
            self._listed.update(map(identifier_digits, names_in(fault.raw)))
            self.note_fault(f"{page.url}: {fault.reason}")
        entries: list[Entry] = [(record.header, record.element) for record in page.records]
        if not page.records:
            entries = [(header, None) for header in page.headers if header.deleted]
        batch = self.transformer.prepare(entries, url=page.url)
        current, _ = without_superseded(self.session, batch, self.request)
        alive = {record.key for record in current.records}
        known = known_records(
            self.session,
            repository_id=self.request.repository_id,
            metadata_prefix=self.request.metadata_prefix,
            keys=[*(record.key for record in batch.records), *batch.passed_over],
        )
        for record in batch.records:
            self._note_prepared(record, known.get(record.key), superseded=record.key not in alive)
        for refusal in batch.refused:
            sample = ReplaySample(identifier=refusal.identifier or "", why=refusal.reason)
            self._note(identifier_digits(sample.identifier), ReplayEffect.LIMIT, lambda one=sample: one)  # type: ignore[misc]
        self._note_passed_over(page.records, frozenset(batch.passed_over), known)

    def note_fault(self, fault: str) -> None:
        """Record an answer, or a part of one, that could not be read."""
        if len(self.found.faults) < _MOST_FAULTS:
            self.found.faults.append(fault)

    def _note_prepared(self, record: Prepared, known: KnownRecord | None, *, superseded: bool) -> None:
        outcome = ReplayEffect.SUPERSEDED if superseded else _OUTCOMES[effect_of(record, known)]
        self._note(record.key, outcome, lambda: self._sample(record, known, outcome))

    def _note_passed_over(
        self, records: Sequence[Record], passed_over: frozenset[str], known: dict[str, KnownRecord]
    ) -> None:
        for record in records:
            key = identifier_digits(record.header.identifier)
            if key in passed_over:
                stored = key in known and known[key].status == RecordStatus.ACTIVE
                outcome = ReplayEffect.LEFT_OUT_NOW if stored else ReplayEffect.LEFT_OUT
                self._note(key, outcome, lambda: self._left_out(record))  # noqa: B023 called at once

    def _note(self, key: str, outcome: ReplayEffect, sample: Callable[[], ReplaySample]) -> None:
        shown = self.found.samples.setdefault(outcome.value, []) if outcome in _SHOWABLE else None
        if shown is not None and len(shown) < _SHOWN and self.outcomes.get(key) is not outcome:
            shown.append(sample())
        self.outcomes[key] = outcome

    def _sample(self, record: Prepared, known: KnownRecord | None, outcome: ReplayEffect) -> ReplaySample:
        identifier = record.header.identifier
        if (
            outcome is not ReplayEffect.UPDATED
            or known is None
            or known.filename is None
            or record.data is None
        ):
            return ReplaySample(identifier=identifier)
        try:
            stored = indented(parse((self.folder / known.filename).read_bytes(), source=known.filename))
        except (OSError, MalformedXmlError) as error:
            return ReplaySample(identifier=identifier, why=f"the stored file cannot be read: {error}")
        after = indented(parse(record.data, source=identifier))
        return ReplaySample(identifier=identifier, diff=difference(stored, after))

    def _left_out(self, record: Record) -> ReplaySample:
        rules = self.transformer.filters
        why = "; ".join(reasons(explain(record.element, rules), rules)) if rules is not None else ""
        return ReplaySample(identifier=record.header.identifier, why=why)
