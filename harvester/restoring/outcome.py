"""The result of a restore, for users and for programs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harvester.restoring.manifest import Missing
from oai.errors import ExitCode

_SHOWN: Final = 5


@dataclass(frozen=True, kw_only=True)
class RestoreOutcome:
    """The result of a restore."""

    folder: Path
    listed: int
    """Captures that the provider listed."""
    wanted: int
    """Documents to be restored: one capture for each URL."""
    restored: int
    """Of these, those that are stored."""
    fetched: int
    """Of these, those that were fetched in this run."""
    unverified: int
    """Of these, those without a digest to compare."""
    others: int
    """Documents of earlier runs that are no longer listed, and were left unchanged."""
    bytes: int
    requests: int
    seconds: float
    missing: Sequence[Missing] = field(default_factory=tuple)
    start: Path | None = None
    """The page to begin with, or the folder of WARC files."""

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code for the shell."""
        return ExitCode.RECORDS_REFUSED if self.missing else ExitCode.DONE

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "verdict": "incomplete" if self.missing else "complete",
            "folder": str(self.folder),
            "start": str(self.start) if self.start else None,
            "listed": self.listed,
            "wanted": self.wanted,
            "restored": self.restored,
            "fetched": self.fetched,
            "unverified": self.unverified,
            "no_longer_listed": self.others,
            "missing": dict(sorted(Counter(one.reason.value for one in self.missing).items())),
            "bytes": self.bytes,
            "requests": self.requests,
            "seconds": round(self.seconds, 3),
        }

    def in_words(self) -> str:
        """Return the result for users."""
        verdict = "Incomplete" if self.missing else "Complete"
        spent = f"{self.bytes:,} bytes in {self.seconds:,.1f} s"
        lines = [f"{verdict}: {self.restored:,} of {self.wanted:,} documents are stored."]
        lines.append(f"{self.fetched:,} of them were fetched in this run ({spent}).")
        if self.unverified:
            lines.append(f"{self.unverified:,} have no digest in the archive and could not be verified.")
        if self.others:
            lines.append(
                f"{self.others:,} documents of earlier runs are no longer listed; they were not changed."
            )
        if self.missing:
            lines += self._missing_lines()
        if self.start is not None:
            what = "Start page" if self.start.suffix else "Folder of WARC files"
            lines.append(f"{what}: {self.start}")
        return "\n".join(lines)

    def _missing_lines(self) -> list[str]:
        counts = Counter(one.reason.value for one in self.missing)
        listed = ", ".join(f"{number:,} {reason}" for reason, number in counts.most_common())
        lines = [f"Missing: {listed}. The full list is {self.folder / 'missing.jsonl'}; the first ones:"]
        lines += [f"  {one.url or one.identifier}: {one.detail}" for one in self.missing[:_SHOWN]]
        return lines


@dataclass(frozen=True, kw_only=True)
class RestorePlan:
    """What a restore would do."""

    listed: int
    wanted: int
    here: int
    bytes: int
    """The size of what is to be fetched, as far as the archive knows."""
    types: dict[str, int]
    missing: Sequence[Missing]
    exit_code: ExitCode = ExitCode.DONE

    def as_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {
            "verdict": "dry run",
            "listed": self.listed,
            "wanted": self.wanted,
            "here": self.here,
            "bytes": self.bytes,
            "types": self.types,
            "missing": dict(sorted(Counter(one.reason.value for one in self.missing).items())),
        }

    def in_words(self) -> str:
        """Return the plan for users."""
        left = self.wanted - self.here
        lines = [f"{self.listed:,} captures of {self.wanted:,} URLs are listed."]
        lines.append(
            f"{self.here:,} are already stored; {left:,} would be fetched, about {self.bytes:,} bytes."
        )
        lines += [f"  {number:>9,}  {kind}" for kind, number in self.types.items()]
        if self.missing:
            lines.append(f"{len(self.missing):,} documents are withheld or cannot be read from the list.")
        return "\n".join(lines)
