"""The request for a harvest, checked before it begins."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harvester.harvest.transform import Transformer
from harvester.harvest.watermark import CompleteHarvest
from harvester.harvest.windows import earlier, least_overlap
from harvester.harvest_plan import HarvestParameters
from harvester.rules.filters import load_filters
from harvester.rules.normalisation import load_mappings
from harvester.rules.rule_limits import RuleLimits
from oai.datestamps import Datestamp, format_datestamp, parse_datestamp
from oai.errors import UsageError
from oai.vocabulary import Granularity

_MOST_PREFIX_CHARACTERS = 60


@dataclass(frozen=True, kw_only=True)
class HarvestRequest(HarvestParameters):
    """The request for one harvest: the parameters of `harvester.harvest_plan`, for one repository."""

    repository_id: int
    replay: int | None = None
    """The earlier run (`history_id`) whose stored answers are to be replayed."""
    job_id: int | None = None
    recurring_id: int | None = None

    def check(self) -> None:
        """Raise UsageError if the parameters contradict each other."""
        bounds = [_bound("from", self.harvest_from), _bound("until", self.harvest_to)]
        first, last = bounds
        if first and last and first.moment > last.last_second:
            raise UsageError(f"from {self.harvest_from!r} is later than until {self.harvest_to!r}")
        if self.max_records is not None and self.max_records < 1:
            raise UsageError(f"{self.max_records} is not a valid number of records; give 1 or more")
        if self.files_per_directory < 1:
            raise UsageError(
                f"{self.files_per_directory} is not a valid number of files in a directory; give 1 or more"
            )
        if not 0 < len(self.metadata_prefix) <= _MOST_PREFIX_CHARACTERS:
            raise UsageError(f"{self.metadata_prefix!r} is not a metadataPrefix of 1 to 60 characters")

    def of(self, repository_id: int) -> "HarvestRequest":
        """Return the same request for a repository that has been identified."""
        return replace(self, repository_id=repository_id)

    def transformer(self, limits: RuleLimits | None = None, *, data: Path | None = None) -> Transformer:
        """Return the transformer with the rules read. Raises UsageError with file and line.

        It has no validator yet. Errors name files in the `data` folder without it: they are stored with runs
        and records, which users of organisations see.
        """
        filters, mappings = self.filter_file, self.normalize_file
        return Transformer(
            filters=load_filters(filters, limits, source=_shown(filters, data)) if filters else None,
            mappings=load_mappings(mappings, limits, source=_shown(mappings, data)) if mappings else None,
            level=self.validation,
        )

    def rule_digests(self) -> tuple[str | None, str | None]:
        """Return the SHA-256 of the filter file and of the normalise file in their present state."""
        return digest_of(self.filter_file), digest_of(self.normalize_file)

    def kind(self) -> dict[str, Any]:
        """Return what must be equal for one run to resume another."""
        return {
            "method": int(self.method),
            "from": self.harvest_from,
            "until": self.harvest_to,
            "full": self.full,
            **({"floor": self.harvest_floor} if self.harvest_floor else {}),
            "max": self.max_records,
            **({"slice": self.slice.value} if self.slice else {}),
            **({"replay": self.replay} if self.replay is not None else {}),
            "validation": int(self.validation),
            "filter": digest_of(self.filter_file),
            "normalize": digest_of(self.normalize_file),
        }

    def covers(self, complete: CompleteHarvest, from_: str | None) -> bool:
        """Return whether the next run need only request what changed after this one, once it is complete.

        `from_` is where the run began, in the repository's granularity. A day must be before that of the
        watermark (`least_overlap`), so that no change between both is left out.
        """
        if self.harvest_to is not None or self.max_records is not None or self.replay is not None:
            return False
        if self.harvest_from is None or from_ is None:
            return True
        if complete.watermark is None:
            return not complete.restarts
        begun, last = parse_datestamp(from_), parse_datestamp(complete.watermark)
        return begun.moment <= earlier(last.moment, least_overlap(begun.granularity))


def in_granularity(datestamp: str | None, granularity: str | None, *, last: bool = False) -> str | None:
    """Return a bound as the repository accepts it (section 2.7.1).

    If the repository supports no seconds, or does not say, that is the day alone. If it does, a day becomes
    its first second or, with `last`, its last one, so that two bounds never differ in granularity.
    """
    if datestamp is None:
        return None
    parsed = parse_datestamp(datestamp)
    if granularity != Granularity.SECOND:
        return format_datestamp(parsed.moment, Granularity.DAY)
    return format_datestamp(parsed.last_second if last else parsed.moment)


def _shown(file: Path, data: Path | None) -> str:
    root = None if data is None else data.resolve()
    return str(file.relative_to(root) if root and file.is_relative_to(root) else file)


def _bound(name: str, datestamp: str | None) -> Datestamp | None:
    try:
        return None if datestamp is None else parse_datestamp(datestamp)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def digest_of(file: Path | None) -> str | None:
    """Return the SHA-256 of a rule file in hexadecimal digits; None without a file. Raises OSError."""
    return None if file is None else hashlib.sha256(file.read_bytes()).hexdigest()
