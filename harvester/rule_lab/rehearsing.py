"""Rehearses a replay: what changed rules would do with the kept answers of a run, before anything is done.

Records are read from the answers, selected and normalised as a replay does it, and compared with what is
stored; nothing is written. Validation is not rehearsed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.client.decoding import TooLargeError, decode
from harvester.client.exchange import HttpRequest, RawReply
from harvester.reading import replies
from harvester.reading.answers import Page, Record
from harvester.reading.errors import ClientError, OaiError
from harvester.repositories import base_folder, get_repository
from harvester.rule_lab.explaining import difference, explain, indented
from harvester.rule_lab.rehearsal import Outcome, Rehearsal, Sample
from harvester.rule_lab.wording import reasons
from harvester.rules.rule_limits import Limits
from harvester.running.intake import fate_of
from harvester.running.parameters import HarvestRequest
from harvester.running.preparing import Entry, Prepared, Preparer
from harvester.running.sourcing import open_kept, without_superseded
from harvester.store.paths import identifier_digits
from harvester.store.records import KnownRecord, known_records
from harvester.vocabulary import Level, RecordStatus
from oai.errors import MalformedXmlError, UsageError
from oai.limits import AnswerLimits
from oai.settings import Settings
from oai.vocabulary import Verb
from oai.xml import parse

_SHOWN: Final = 5
"""Samples of each kind."""
_MOST_FAULTS: Final = 100
_SUCCESS: Final = 200
_VERBS: Final = {verb.value: verb for verb in (Verb.LIST_RECORDS, Verb.GET_RECORD, Verb.LIST_IDENTIFIERS)}
_OUTCOMES: Final = {
    "new": Outcome.NEW,
    "updated": Outcome.UPDATED,
    "unchanged": Outcome.UNCHANGED,
    "deleted": Outcome.DELETED,
    "tombstones": Outcome.UNCHANGED,
}
_SHOWABLE: Final = frozenset(
    {Outcome.NEW, Outcome.UPDATED, Outcome.LEFT_OUT_NOW, Outcome.DELETED, Outcome.LIMIT}
)


def rehearse_replay(session: Session, settings: Settings, request: HarvestRequest) -> Rehearsal:
    """What the replay that is asked for would do; `request` is as `replay_request` gives it.

    Raises UsageError where nothing was kept of the run, and RuleFileError for faulty rules.
    """
    if request.replay is None:
        raise UsageError("no run to preview; give the number of a run")
    repository = get_repository(session, request.repository_id)
    if access_of(repository.protocol).query is not None:
        raise UsageError(
            "a replay can be previewed for OAI-PMH only; to run it without a preview, use `zatva "
            f"harvest {request.repository_id} --replay {request.replay}`"
        )
    found = Rehearsal(run=request.replay, repository_id=request.repository_id)
    limits = Limits(seconds=settings.harvester.rule_seconds)
    preparer = replace(request, validation=Level.LOOSE).preparer(limits)
    folder = base_folder(repository, settings)
    looking = _Looking(session=session, request=request, preparer=preparer, folder=folder, found=found)
    for asked, reply in open_kept(session, settings, request.replay).exchanges():
        try:
            page = _page(asked, reply, settings.harvester.limits)
        except OaiError:
            continue  # such as noRecordsMatch: an answer that has no records
        except (ClientError, TooLargeError) as error:
            looking.note_fault(str(error))
            continue
        if page is not None:
            looking.look_at(page)
    found.counts = Counter(one.value for one in looking.outcomes.values())
    return found


def _page(asked: HttpRequest, reply: RawReply, limits: AnswerLimits) -> Page | None:
    """The answer's records; None where it is none that brings records."""
    query = parse_qs(asked.body.decode("ascii", errors="replace") or urlsplit(asked.url).query)
    verb = _VERBS.get(query.get("verb", [""])[0])
    if verb is None or reply.status != _SUCCESS:
        return None
    body = decode(reply.body, reply.header("Content-Encoding"), limits).body[:]
    kind = reply.header("Content-Type")
    return replies.read_page(body, verb, url=asked.url, content_type=kind, loose=True)


@dataclass(kw_only=True)
class _Looking:
    """A rehearsal under way; of records that come again, the last one counts."""

    session: Session
    request: HarvestRequest
    preparer: Preparer
    folder: Path
    found: Rehearsal
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By the digits of the identifiers' keys."""

    def look_at(self, page: Page) -> None:
        """Note what becomes of the page's records."""
        for fault in page.faults:
            self.note_fault(f"{page.url}: {fault.reason}")
        entries: list[Entry] = [(record.header, record.element) for record in page.records]
        if not page.records:
            entries = [(header, None) for header in page.headers if header.deleted]
        batch = self.preparer.prepare(entries, url=page.url)
        current, _ = without_superseded(
            self.session,
            batch,
            repository_id=self.request.repository_id,
            metadata_prefix=self.request.metadata_prefix,
        )
        alive = {record.key for record in current.records}
        known = self._known([record.key for record in batch.records] + list(batch.passed_over))
        for record in batch.records:
            self._note_prepared(record, known.get(record.key), superseded=record.key not in alive)
        for refusal in batch.refused:
            sample = Sample(identifier=refusal.identifier or "", why=refusal.reason)
            self._note(identifier_digits(sample.identifier), Outcome.LIMIT, lambda one=sample: one)  # type: ignore[misc]
        self._note_passed_over(page.records, frozenset(batch.passed_over), known)

    def note_fault(self, fault: str) -> None:
        """Note an answer, or a part of one, that could not be read."""
        if len(self.found.faults) < _MOST_FAULTS:
            self.found.faults.append(fault)

    def _note_prepared(self, record: Prepared, known: KnownRecord | None, *, superseded: bool) -> None:
        outcome = Outcome.SUPERSEDED if superseded else _OUTCOMES[fate_of(record, known)]
        self._note(record.key, outcome, lambda: self._sample(record, known, outcome))

    def _note_passed_over(
        self, records: Sequence[Record], passed_over: frozenset[str], known: dict[str, KnownRecord]
    ) -> None:
        for record in records:
            key = identifier_digits(record.header.identifier)
            if key in passed_over:
                stored = key in known and known[key].status == RecordStatus.ACTIVE
                outcome = Outcome.LEFT_OUT_NOW if stored else Outcome.LEFT_OUT
                self._note(key, outcome, lambda: self._left_out(record))  # noqa: B023 called at once

    def _note(self, key: str, outcome: Outcome, sample: Callable[[], Sample]) -> None:
        shown = self.found.samples.setdefault(outcome.value, []) if outcome in _SHOWABLE else None
        if shown is not None and len(shown) < _SHOWN and self.outcomes.get(key) is not outcome:
            shown.append(sample())
        self.outcomes[key] = outcome

    def _sample(self, record: Prepared, known: KnownRecord | None, outcome: Outcome) -> Sample:
        identifier = record.header.identifier
        if outcome is not Outcome.UPDATED or known is None or known.filename is None or record.data is None:
            return Sample(identifier=identifier)
        try:
            stored = indented(parse((self.folder / known.filename).read_bytes(), source=known.filename))
        except (OSError, MalformedXmlError) as error:
            return Sample(identifier=identifier, why=f"the stored file cannot be read: {error}")
        after = indented(parse(record.data, source=identifier))
        return Sample(identifier=identifier, diff=difference(stored, after))

    def _left_out(self, record: Record) -> Sample:
        rules = self.preparer.filters
        why = "; ".join(reasons(explain(record.element, rules), rules)) if rules is not None else ""
        return Sample(identifier=record.header.identifier, why=why)

    def _known(self, keys: list[str]) -> dict[str, KnownRecord]:
        return dict(
            known_records(
                self.session,
                repository_id=self.request.repository_id,
                metadata_prefix=self.request.metadata_prefix,
                keys=keys,
            )
        )
