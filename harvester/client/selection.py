"""What a list request selects: format, set, and the datestamp bounds (specification, section 3.5)."""

from dataclasses import dataclass
from datetime import date, datetime

from harvester.client.transport import Arguments
from oai.datestamps import format_datestamp

Bound = str | date | datetime | None
"""A datestamp bound: in the protocol's notation, a day, or a moment with a time zone."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a list request selects; `from_` and `until` are inclusive, and sent unchanged."""

    metadata_prefix: str = "oai_dc"
    set_spec: str | None = None
    from_: str | None = None
    until: str | None = None

    def arguments(self) -> Arguments:
        """Return the request's arguments, without those that select nothing."""
        pairs = (
            ("metadataPrefix", self.metadata_prefix),
            ("from", self.from_),
            ("until", self.until),
            ("set", self.set_spec),
        )
        return [(name, value) for name, value in pairs if value]


def as_datestamp(bound: Bound) -> str | None:
    """Return the bound as sent: a day as a day, a moment to the second in UTC, a text unchanged.

    Raises ValueError for a moment without a time zone.
    """
    if isinstance(bound, datetime):
        return format_datestamp(bound)
    return bound.isoformat() if isinstance(bound, date) else bound
