"""Try conditions on stored records before they select what is imported."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lxml import etree
from sqlalchemy.orm import Session

from harvester.bibliographic.candidates import read_sample
from harvester.bibliographic.conditions import Conditions
from harvester.bibliographic.converters import (
    Candidate,
    NoMetadataError,
    UnreadableFileError,
    converter_for,
    read_metadata,
)
from harvester.bibliographic.record import RawField
from harvester.bibliographic.sources import choose_prefix
from harvester.repositories import base_folder, get_repository
from harvester.rules.rule_expressions import TooMuchError
from harvester.rules.rule_limits import Evaluation, Evaluator, RuleLimits
from oai.errors import UsageError
from oai.settings import Settings

_SHOWN: Final = 10
_DAY: Final = 86_400.0


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A record on which the conditions were tried."""

    repository_id: int
    identifier: str
    title: str


@dataclass(kw_only=True)
class Trial:
    """The result of a trial."""

    looked_at: int = 0
    chosen: int = 0
    passed_over: int = 0
    unreadable: int = 0
    true_of: list[int] = field(default_factory=list)
    """For each condition, the number of records for which it holds by itself."""
    chosen_sample: list[Tried] = field(default_factory=list)
    passed_over_sample: list[Tried] = field(default_factory=list)


def try_conditions(
    session: Session,
    settings: Settings,
    rules: Conditions,
    repository_ids: Sequence[int],
    *,
    most: int,
    seconds: float = _DAY,
) -> Trial:
    """Try the conditions on up to `most` stored records of each repository, chosen practically at random.

    The samples contain the first ten accepted and the first ten rejected records. Raises UsageError if it
    takes longer than `seconds`.
    """
    evaluation = Evaluator(RuleLimits(seconds=seconds)).on(etree.Element("trial"))
    try:
        return _tried(session, settings, rules, repository_ids, evaluation, most=most)
    except TooMuchError:
        raise UsageError(
            "the conditions take longer than %(seconds)s seconds on these records; write simpler regular "
            "expressions, or try fewer records",
            seconds=f"{seconds:g}",
        ) from None


def _tried(
    session: Session,
    settings: Settings,
    rules: Conditions,
    repository_ids: Sequence[int],
    evaluation: Evaluation,
    *,
    most: int,
) -> Trial:
    trial = Trial(true_of=[0] * len(rules.conditions))
    for repository_id in repository_ids:
        folder = base_folder(get_repository(session, repository_id), settings)
        prefix = choose_prefix(session, repository_id, folder)
        if prefix is None:
            continue
        for candidate in read_sample(session, repository_id, prefix, most=most):
            trial.looked_at += 1
            read = _read(folder, candidate)
            if read is None:
                trial.unreadable += 1
                continue
            title, fields = read
            held = []
            for place, condition in enumerate(rules.conditions):
                evaluation.check()
                held.append(condition.accepts(fields, evaluation.matches))
                trial.true_of[place] += held[-1]
            tried = Tried(repository_id=repository_id, identifier=candidate.identifier, title=title)
            _note(trial, tried, chosen=rules.joined(held))
    return trial


def _read(folder: Path, candidate: Candidate) -> tuple[str, Sequence[RawField]] | None:
    """Return the record's title and its fields; None if it cannot be converted."""
    try:
        metadata = read_metadata(folder, candidate)
    except (UnreadableFileError, NoMetadataError):
        return None
    converter = converter_for(metadata)
    if converter is None or converter.declined(metadata):
        return None
    return converter.convert(metadata).title, list(converter.fields(metadata))


def never_true(trial: Trial, rules: Conditions) -> Iterable[str]:
    """Yield the conditions that hold for none of the readable records, as lines."""
    read = trial.looked_at - trial.unreadable
    return [
        str(condition)
        for condition, number in zip(rules.conditions, trial.true_of, strict=True)
        if read and not number
    ]


def _note(trial: Trial, tried: Tried, *, chosen: bool) -> None:
    trial.chosen += chosen
    trial.passed_over += not chosen
    sample = trial.chosen_sample if chosen else trial.passed_over_sample
    if len(sample) < _SHOWN:
        sample.append(tried)
