"""The form of a notification rule and the labels of its choices."""

import re
from collections.abc import Mapping
from typing import Final

from pydantic import Field, field_validator

from manager.notices.models import (
    Channel,
    Kind,
    Language,
    Notice,
    NoticeRule,
    NoticeState,
    Occasion,
    UnsentReason,
)
from manager.notices.rules import RuleColumns
from web.site.formats import clock
from web.site.forms import FormModel, empty_is_none
from web.site.i18n import _

_LONGEST: Final = 2000
_LANGUAGES: Final = {Language.ENGLISH: "English", Language.CZECH: "Čeština", Language.SLOVAK: "Slovenčina"}
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


class AlertForm(FormModel):
    """Event kinds, channel, recipients and language of a notification rule."""

    kind: Kind = Kind.ERROR
    channel: Channel = Channel.MAIL
    target: str = Field(
        min_length=1,
        max_length=_LONGEST,
        description="E-mail addresses separated by commas, one webhook URL, or the name of a service.",
    )
    language: Language = Language.ENGLISH
    recurring_id: int | None = Field(None, ge=1, le=999_999_999)

    _empty_is_none = empty_is_none("recurring_id")

    @field_validator("channel")
    @classmethod
    def _is_no_hook(cls, value: Channel) -> Channel:
        if value is Channel.HOOK:
            raise ValueError(_("Choose one of the options."))
        return value

    def wanted(self, repository_id: int | None) -> RuleColumns:
        """Return the rule to store, for one repository or (None) for all repositories."""
        mail, service = self.channel is Channel.MAIL, self.channel is Channel.SERVICE
        return RuleColumns(
            kind=self.kind,
            language=self.language,
            mail=[part.strip() for part in self.target.split(",") if part.strip()] if mail else (),
            webhook=self.target if self.channel is Channel.WEBHOOK else None,
            service=self.target if service else None,
            repository_id=repository_id,
            recurring_id=self.recurring_id,
        )


def values_of(rule: NoticeRule) -> Mapping[str, object]:
    """Return the form values of an existing rule."""
    return {
        "kind": rule.kind,
        "channel": rule.channel,
        "target": rule.target,
        "language": rule.language,
        "recurring_id": rule.recurring_id or "",
    }


def kinds() -> list[tuple[str, str]]:
    """Return the event kinds that a rule can select, with labels."""
    return [
        ("error", _("When it starts to fail, daily while it fails, and when it works again")),
        ("change", _("Also after each harvest that changes records")),
        ("always", _("After every harvest, even if nothing changed")),
        ("daily", _("A daily summary only")),
        ("weekly", _("A weekly summary only")),
    ]


def channels() -> list[tuple[str, str]]:
    """Return the notification channels with labels."""
    return [
        ("mail", _("By e-mail")),
        ("webhook", _("By webhook")),
        ("service", _("By a chat or push service")),
    ]


def language_choices() -> list[tuple[str, str]]:
    """Return the languages, each named in itself."""
    return [(code.value, name) for code, name in _LANGUAGES.items()]


def occasions() -> dict[str, str]:
    """Return the label of each kind of notice."""
    return {
        Occasion.FAILING: _("harvests fail"),
        Occasion.STILL_FAILING: _("harvests still fail"),
        Occasion.WORKS_AGAIN: _("works again"),
        Occasion.ENDED: _("a harvest ended"),
        Occasion.SUSPENDED: _("a schedule was suspended"),
        Occasion.STUCK: _("a harvest makes no progress"),
        Occasion.SET_ASIDE: _("a schedule or job was rejected"),
        Occasion.STORE_AUDIT: _("a store is damaged or was not audited"),
        Occasion.REPORT: _("report of many notifications"),
        Occasion.SUMMARY: _("summary"),
        Occasion.TEST: _("test message"),
        Occasion.CONFIRM: _("link to confirm the address"),
        Occasion.DIGEST_CONFIRM: _("link to confirm the digest"),
        Occasion.DIGEST: _("weekly digest"),
    }


def reason_of(notice: Notice) -> str | None:
    """Return why a message waits or was not sent; None if another program said it (`last_error`)."""
    # The target is in its own column.
    stored = (notice.last_error or "").removeprefix(f"{notice.target}: ")
    if notice.state == NoticeState.COLLECTED and stored:
        words = _(
            "collected for a report at %(time)s, or when the report before it is sent; many messages for one "
            "recipient within an hour (manager.notices_at_once)"
        )
        return words % {"time": clock(notice.due)}
    if notice.state == NoticeState.MUTED:
        kind, colon, note = stored.partition(": ")
        return f"{_(kind)}{colon}{note}"
    number = _NUMBER.search(stored)
    words = _NUMBER.sub("%(number)s", stored, count=1)
    return _(words) % {"number": number and number[0]} if words in set(UnsentReason) else None


def state_words() -> Mapping[str, str]:
    """Return the label of each notice state; translate it where it is shown."""
    return {
        NoticeState.WAITING: "waiting",
        NoticeState.CLAIMED: "on its way",
        NoticeState.HANDED: "on its way",
        NoticeState.SENT: "sent",
        NoticeState.GIVEN_UP: "given up",
        NoticeState.UNSURE: "unsure",
        NoticeState.MUTED: "muted",
        NoticeState.COLLECTED: "in a report",
    }
