"""The sources of records: settings of each repository's import, and a record's address at its institution."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from sqlalchemy import and_, exists, func, or_, select, text
from sqlalchemy.orm import Session

from harvester.bibliographic.candidates import read_sample
from harvester.bibliographic.converters import (
    Converter,
    NoMetadataError,
    UnreadableFileError,
    converter_for,
    converter_of_namespace,
    read_metadata,
)
from harvester.bibliographic.marc21.converter import Marc21Converter
from harvester.bibliographic.models import BibliographicRow, ImportSource
from harvester.models import Harvest, History, Record, Repository
from harvester.repositories import get_repository
from harvester.vocabulary import AccessProtocol, RecordStatus, Verdict
from oai.datestamps import parse_datestamp
from oai.errors import UsageError
from oai.models import from_row

_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_NAMES: Final = frozenset({"identifier", "local", "control_number"})
# Jumps from format to format in the index instead of reading all records.
_PREFIXES: Final = text(
    """
    WITH RECURSIVE walk AS (
        (SELECT metadata_prefix FROM oai_record WHERE repository_id = :id ORDER BY metadata_prefix LIMIT 1)
        UNION ALL
        SELECT (SELECT metadata_prefix FROM oai_record
                WHERE repository_id = :id AND metadata_prefix > walk.metadata_prefix
                ORDER BY metadata_prefix LIMIT 1)
        FROM walk WHERE walk.metadata_prefix IS NOT NULL
    )
    SELECT metadata_prefix FROM walk WHERE metadata_prefix IS NOT NULL
    """
)
_ANNOUNCED: Final = text(
    """
    SELECT metadata_prefix FROM oai_metadata_format JOIN oai_prefix_mapping USING (prefix_id)
    WHERE repository_id = :id
    """
)
_SAMPLE: Final = 5
_NAMESPACES = text(
    """
    SELECT metadata_namespace FROM oai_metadata_format JOIN oai_prefix_mapping USING (prefix_id)
    WHERE repository_id = :id AND metadata_prefix = :prefix
    """
)


class UnknownFormatError(UsageError):
    """A format of which the repository has no harvested records, and which it does not announce."""


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """The settings of a repository's import."""

    repository_id: int
    record_url_template: str | None = None
    after_harvest: bool = True
    metadata_prefix: str | None = None
    set_id: int | None = None


def source_settings(session: Session, repository_id: int) -> SourceSettings:
    """Return the settings of a repository's import. Raises UsageError if there is no such repository."""
    get_repository(session, repository_id)
    return _settings(session.get(ImportSource, repository_id), repository_id)


def _settings(row: ImportSource | None, repository_id: int) -> SourceSettings:
    if row is None:
        return SourceSettings(repository_id=repository_id)
    return from_row(SourceSettings, row)


def save_source(session: Session, settings: SourceSettings) -> None:
    """Store the settings; the caller commits.

    Raises UsageError if the template cannot be used, and UnknownFormatError for a new format that the
    repository does not have.
    """
    present = source_settings(session, settings.repository_id)
    if settings.metadata_prefix not in {None, present.metadata_prefix}:
        _check_format(session, settings.repository_id, settings.metadata_prefix or "")
    if settings.record_url_template is not None:
        check_template(settings.record_url_template)
    session.merge(ImportSource(**asdict(settings)))
    session.flush()


def harvested_prefixes(session: Session, repository_id: int) -> list[str]:
    """Return the formats in which records of the repository were harvested, ordered by name."""
    return list(session.scalars(_PREFIXES, {"id": repository_id}))


def known_prefixes(session: Session, repository_id: int) -> list[str]:
    """Return the formats that were harvested or are announced, ordered by name."""
    announced = session.scalars(_ANNOUNCED, {"id": repository_id})
    return sorted({*harvested_prefixes(session, repository_id), *announced})


def _check_format(session: Session, repository_id: int, prefix: str) -> None:
    # All rows of another format are removed, so a mistyped one would remove all.
    known = known_prefixes(session, repository_id)
    if prefix not in known:
        raise UnknownFormatError(
            "repository %(repository_id)s has no format %(prefix)s; its formats: %(known)s; to read new "
            "ones, run `zatva repository refresh %(repository_id)s`",
            repository_id=repository_id, prefix=repr(prefix), known=", ".join(known) or "-",
        )  # fmt: skip


def check_template(template: str) -> str:
    """Return the template unchanged. Raises UsageError, which names what is wrong with it."""
    known = ", ".join(f"{{{name}}}" for name in sorted(_NAMES))
    for name in _PLACEHOLDER.findall(template):
        if name not in _NAMES:
            raise UsageError(
                "%(template)s: unknown placeholder %(name)s; the placeholders are %(known)s",
                template=repr(template), name=f"{{{name}}}", known=known,
            )  # fmt: skip
    if not _PLACEHOLDER.search(template):
        raise UsageError(
            "%(template)s is the same page for all records; include one of %(known)s",
            template=repr(template), known=known,
        )  # fmt: skip
    try:
        parts = urlsplit(_PLACEHOLDER.sub("x", template))
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        usable = False
    fixed = _PLACEHOLDER.search(template.partition("://")[2].partition("/")[0]) is None
    if not usable or not fixed or re.search(r"\s", template):
        raise UsageError(
            "%(template)s is not a web address; write it as https://host/path/{identifier}",
            template=repr(template),
        )
    return template


def record_url(template: str | None, values: Mapping[str, str]) -> str | None:
    """Return the address of a record's page; None without a template, or if a value is missing."""
    if template is None or not all(values.get(name) for name in _PLACEHOLDER.findall(template)):
        return None
    return _PLACEHOLDER.sub(lambda found: quote(values[found[1]], safe=""), template)


def local_part(identifier: str) -> str:
    """Return the part after the namespace of an OAI identifier: `1` of `oai:biblio.hiu.cas.cz:1`."""
    parts = identifier.split(":", 2)
    return parts[2] if len(parts) == 3 and parts[0].lower() == "oai" else identifier  # noqa: PLR2004


def choose_prefix(session: Session, repository_id: int, folder: Path) -> str | None:
    """Return the format to import: the configured one, else the best that a converter reads, or None.

    If no converter reads any of the formats, it is the first one, so that its records are refused one by one.
    """
    return _best(session, source_settings(session, repository_id), folder)[1] or None


def marc_prefix(session: Session, repository_id: int, folder: Path, wanted: str | None = None) -> str:
    """Return the harvested format whose records are MARC 21: the wanted one, else the first by name.

    Raises UsageError if there is none.
    """
    harvested = harvested_prefixes(session, repository_id)
    for prefix in harvested if wanted is None else [wanted]:
        found = _converter(session, repository_id, prefix, folder)
        if prefix in harvested and found is not None and found.name == Marc21Converter.name:
            return prefix
    formats = ", ".join(harvested) or "none"
    which = "no MARC records" if wanted is None else f"no MARC records in the format {wanted!r}"
    raise UsageError(f"repository {repository_id} has {which}; harvested formats: {formats}")


class FollowUpImport(NamedTuple):
    """What an import after a harvest reads: a format (empty: there is none), of the records in a set."""

    prefix: str
    set_id: int | None


def after_harvest(session: Session, repository_id: int, folder: Path) -> FollowUpImport | None:
    """Return what to import after a harvest; None if nothing is to follow it.

    An import follows as chosen, or else if a converter reads a format.
    """
    chosen = session.get(ImportSource, repository_id)
    settings = _settings(chosen, repository_id)
    if not settings.after_harvest:
        return None
    rank, prefix = _best(session, settings, folder)
    if chosen is None and rank == 0:
        return None
    return FollowUpImport(prefix, settings.set_id)


def _best(session: Session, settings: SourceSettings, folder: Path) -> tuple[int, str]:
    """Return the format to import with the rank of its converter: 0 and "" if there is none.

    Rows of another format than this one are removed, so a format that was received in part (a sample, a first
    harvest that failed) does not replace one that was received completely, or that has rows.
    """
    wanted, number = settings.metadata_prefix, settings.repository_id
    live = _live_prefixes(session, number)
    # A chosen format replaces nothing before it is harvested.
    prefixes = [wanted] if wanted is not None and wanted in live else live
    ranks = {prefix: _rank(_converter(session, number, prefix, folder)) for prefix in prefixes}
    if len(ranks) < 2:  # noqa: PLR2004 nothing to choose from
        return next(((rank, prefix) for prefix, rank in ranks.items()), (0, ""))
    present = session.scalar(
        select(BibliographicRow.metadata_prefix).filter_by(repository_id=number).limit(1)
    )
    if ranks.get(present or "") == 0:
        return 0, present or ""  # its files cannot be read now
    complete = _complete_formats(session, number, present)
    if present is not None and present not in complete:
        complete = [one for one in complete if _replaces_all_rows(session, number, one)]

    def merit(prefix: str) -> tuple[bool, bool, int, bool, int]:
        rank, whole = ranks[prefix], prefix in complete
        return rank > 0, whole, rank * whole, prefix == present, rank

    best = max(prefixes, key=merit)
    return ranks[best], best


def _replaces_all_rows(session: Session, repository_id: int, prefix: str) -> bool:
    """Return whether the format has as many records as there are rows of the repository."""
    rows = select(func.count()).select_from(BibliographicRow).filter_by(repository_id=repository_id)
    records = (
        select(Record.record_id)
        .filter_by(repository_id=repository_id, metadata_prefix=prefix, status=RecordStatus.ACTIVE.value)
        .limit(1)
        .offset(max(session.scalars(rows).one() - 1, 0))
    )
    return session.scalar(records) is not None


def _live_prefixes(session: Session, repository_id: int) -> list[str]:
    """Return the harvested formats with records that are not deleted; all of them if there is none."""
    prefixes = harvested_prefixes(session, repository_id)
    return [one for one in prefixes if read_sample(session, repository_id, one, most=1)] or prefixes


def _complete_formats(session: Session, repository_id: int, present: str | None) -> Collection[str]:
    """Return the formats of which all was received that was received of the present one.

    If that was not received completely either, the whole repository is demanded of the others.
    """
    of_harvest = and_(History.repository_id == repository_id, History.harvest_id == Harvest.harvest_id)
    undated = and_(
        # Queries have no dates, so they leave no watermark; nor do they have bounds.
        Repository.protocol != AccessProtocol.OAI_PMH,
        exists().where(of_harvest, History.verdict == Verdict.COMPLETE.value),
    )
    query = (
        select(Harvest.metadata_prefix, Harvest.set_spec, Harvest.complete_from)
        .join(Repository, Repository.repository_id == Harvest.repository_id)
        .where(
            Harvest.repository_id == repository_id,
            or_(Harvest.watermark.is_not(None), Harvest.restarts, undated),
        )
    )
    received: dict[str, dict[str, str | None]] = defaultdict(dict)
    for prefix, set_spec, complete_from in session.execute(query):
        received[prefix][set_spec] = complete_from
    wanted = received.get(present or "") or ({} if present is None else {"": None})
    return {
        prefix
        for prefix, sets in received.items()
        if all(_includes(sets, set_spec, since) for set_spec, since in wanted.items())
    }


def _includes(sets: Mapping[str, str | None], set_spec: str, since: str | None) -> bool:
    """Return whether complete harvests of these sets include those of this set since that datestamp."""
    return any(
        (not known or set_spec == known or set_spec.startswith(f"{known}:"))
        and (begin is None or (since is not None and _moment(begin) <= _moment(since)))
        for known, begin in sets.items()
    )


def _moment(datestamp: str) -> datetime:
    return parse_datestamp(datestamp).moment


def _rank(converter: Converter | None) -> int:
    return 0 if converter is None else converter.rank


def _converter(session: Session, repository_id: int, prefix: str, folder: Path) -> Converter | None:
    """Return the converter for a format, found by its namespace, or from some of its records."""
    for namespace in session.scalars(_NAMESPACES, {"id": repository_id, "prefix": prefix}):
        found = converter_of_namespace(namespace)
        if found is not None:
            return found
    for candidate in read_sample(session, repository_id, prefix, most=_SAMPLE):
        try:
            found = converter_for(read_metadata(folder, candidate))
        except (UnreadableFileError, NoMetadataError):
            continue  # another one will do; the import reports what is wrong with this record
        if found is not None:
            return found
    return None
