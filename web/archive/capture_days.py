"""Days of capture in forms, in the reader's time zone; both are included."""

from datetime import date, datetime, timedelta
from typing import Self

from pydantic import model_validator

from web.site.forms import FormModel, empty_is_none
from web.site.i18n import _
from web.site.zones import midnight


class CaptureDays(FormModel):
    """The first and the last day of capture; None: no limit."""

    since: date | None = None
    until: date | None = None

    _no_day_is_none = empty_is_none("since", "until")

    @model_validator(mode="after")
    def _it_does_not_end_before_it_begins(self) -> Self:
        if self.since and self.until and self.since > self.until:
            raise ValueError(_("The first day of capture is after the last one."))
        return self

    def moments(self) -> tuple[datetime | None, datetime | None]:
        """Return the first and the last moment of capture, UTC."""
        end = midnight(self.until + timedelta(days=1)) - timedelta(microseconds=1) if self.until else None
        return midnight(self.since) if self.since else None, end
