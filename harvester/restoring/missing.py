"""What could not be restored, and why."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harvester.restoring.captures import Capture


class Reason(StrEnum):
    """Why a document is missing."""

    WITHHELD = "withheld"
    """The archive lists it as deleted: hidden, or closed to everybody."""
    RESTRICTED = "restricted"
    """Open in the archive's reading room only, or under an embargo."""
    GONE = "gone"
    """The archive no longer knows it, or never had its content."""
    DAMAGED = "damaged"
    """The archive itself found its record damaged."""
    DIGEST = "digest mismatch"
    """What came is not what was archived."""
    TOO_LARGE = "too large"
    UNAVAILABLE = "unavailable"
    """Not to be had at the moment; the same command tries again."""
    REFUSED = "refused"
    """A record or an answer that is none of a Zatva provider's."""
    PACKED = "packed"
    """Its compression is unknown or broken. Its bytes are kept as they are."""


BY_STATUS = {403: Reason.RESTRICTED, 404: Reason.GONE, 410: Reason.WITHHELD, 500: Reason.DAMAGED}
"""By the HTTP status of the provider's answer."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A document that could not be restored."""

    reason: Reason
    detail: str
    identifier: str
    url: str = ""
    """Empty where the archive does not tell it, as of deleted records."""
    captured: str = ""

    def as_json(self) -> dict[str, Any]:
        """A line of the list of what is missing."""
        return {
            "url": self.url or None,
            "captured": self.captured or None,
            "identifier": self.identifier,
            "reason": self.reason.value,
            "detail": self.detail,
        }


def missing(capture: Capture, reason: Reason, detail: str) -> Missing:
    """That this capture is missing."""
    return Missing(
        reason=reason,
        detail=detail,
        identifier=capture.identifier,
        url=capture.url,
        captured=capture.captured.isoformat(),
    )
