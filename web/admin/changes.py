"""What an entry of the audit log changed: labels of the columns, and their values in the reader's language.

Columns without a label, such as keys and counters, are not shown; the exports include them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from harvester.access import ACCESSES
from manager.jobs.views import STATUS_WORDS
from manager.models import RecurringState, in_plain_words
from oai.audit import AuditEntry
from web.alerts.forms import channels, language_choices
from web.alerts.forms import kinds as alert_kinds
from web.alerts.pages_mutes import mute_kinds
from web.archive.pages_aggregate import identifier_choices
from web.repositories.forms import policies
from web.rules.pages import kinds as rule_kinds
from web.schedules.forms import levels, methods, overlaps, slices
from web.schedules.timing import often
from web.site.formats import datestamp, exact
from web.site.i18n import _, mark

_MOST: Final = 6
_LONGEST: Final = 80
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d")
"""As PostgreSQL writes a time in JSON; datestamps end in Z."""
_DATESTAMPS: Final = frozenset({"earliest_datestamp", "harvest_from", "harvest_to"})
LABELS: Final[Mapping[str, str]] = {
    "state": mark("State"),
    "state_reason": mark("Reason"),
    "status": mark("State"),
    "verdict": mark("Outcome"),
    "failure_reason": mark("Reason"),
    "reason": mark("Reason"),
    "lifted_because": mark("Reason"),
    "note": mark("Note"),
    "targets": mark("Addresses"),
    "reference": mark("File number"),
    "version": mark("Version"),
    "name": mark("Name"),
    "repository_name": mark("Name"),
    "short_name": mark("Short name"),
    "title": mark("Title"),
    "description": mark("Description"),
    "role": mark("Role"),
    "organisation": mark("Organisation"),
    "organisation_id": mark("Organisation"),
    "disabled": mark("Disabled since"),
    "second_factor": mark("Second factor"),
    "totp_since": mark("Second factor since"),
    "awaits": mark("Waits for"),
    "openid": mark("Connected account"),
    "groups": mark("Groups"),
    "scopes": mark("Scopes"),
    "expires": mark("Expires"),
    "revoked": mark("Revoked"),
    "base_url": mark("Base URL"),
    "base_dir": mark("Base directory"),
    "protocol": mark("Protocol"),
    "admin_email": mark("Administrator"),
    "kind": mark("Type"),
    "target": mark("Recipient"),
    "channel": mark("Channel"),
    "language": mark("Language"),
    "repository_id": mark("Repository"),
    "recurring_id": mark("Schedule"),
    "job_id": mark("Job"),
    "user_id": mark("User"),
    "set_id": mark("Filtering set"),
    "parent_id": mark("Parent collection"),
    "metadata_prefix": mark("Metadata format"),
    "set_spec": mark("Set"),
    "frequency": mark("Frequency"),
    "time_zone": mark("Time zone"),
    "start_date": mark("Start"),
    "starts": mark("Start"),
    "ends": mark("End"),
    "end_date": mark("End"),
    "harvest_from": mark("From datestamp"),
    "harvest_to": mark("Until datestamp"),
    "incremental": mark("Only records changed since the last complete harvest"),
    "method": mark("Method"),
    "harvest_method": mark("Method"),
    "validation": mark("Validation"),
    "filter_file_path": mark("Filter file"),
    "normalize_file_path": mark("Normalise file"),
    "max_records": mark("Record limit"),
    "max_bytes": mark("Limit in bytes"),
    "parse_id": mark("Record files"),
    "files_per_dir": mark("Files per folder"),
    "slice": mark("Division"),
    "overlap": mark("If the last run is still in progress"),
    "priority": mark("Priority"),
    "owner": mark("Owner"),
    "failures": mark("Failures in a row"),
    "deletion_policy": mark("When a record is deleted"),
    "brake_deletions": mark("Deletions allowed per run, in percent"),
    "brake_updates": mark("Changes allowed per run, in percent"),
    "repairs": mark("Repairs"),
    "cleared": mark("Locks cleared"),
    "not_before": mark("Not before"),
    "protocol_version": mark("Protocol version"),
    "granularity": mark("Granularity"),
    "deleted_record": mark("Deleted records"),
    "earliest_datestamp": mark("Earliest datestamp"),
    "identified": mark("Last refreshed"),
    "examined": mark("Diagnosed"),
    "after_harvest": mark("Import after each harvest"),
    "record_url_template": mark("URL of a record's page at the institution"),
    "match": mark("Conditions"),
    "identifiers": mark("Identifiers"),
    "altered": mark("Reported as altered"),
    "withdrawn": mark("Withdrawn"),
    "access": mark("Access"),
    "embargo_until": mark("Embargo until"),
    "hidden": mark("Hidden"),
    "deleted": mark("Deleted"),
    "listed": mark("Listed"),
    "from_titles": mark("Filled by imports of titles"),
    "documents": mark("Documents"),
    "records": mark("Records"),
    "bytes": mark("Size in bytes"),
    "url": mark("URL"),
    "archived": mark("Captured"),
    "identifier": mark("Identifier"),
    "resolved": mark("Resolved"),
    "form": mark("Format"),
    "selection": mark("Selection"),
    "reading_room": mark("Includes documents for the reading room"),
    "asked_by": mark("Requested by"),
    "removed": mark("Removed"),
    "removed_by": mark("Removed by"),
    "former_organisation": mark("Former organisation"),
    "removed_rules": mark("Notification rules removed"),
    "revoked_cards": mark("Report cards revoked"),
    "captures": mark("Captures"),
    "path": mark("File"),
    "harvest_start_time": mark("Started"),
    "harvest_end_time": mark("Ended"),
    "started": mark("Started"),
    "lifted": mark("Ended"),
    "ended": mark("Ended"),
    "record_count": mark("Records"),
    "new_count": mark("New"),
    "updated_count": mark("Changed"),
    "deleted_count": mark("Deleted"),
    "invalid_count": mark("Rejected"),
    "host": mark("Host"),
    "next_due": mark("Next run"),
    "next_key_from": mark("Next key from"),
    "exit_code": mark("Exit code"),
}
"""By column or detail, in the order in which changes are shown."""
_COUNTS: Final[Mapping[str, str]] = {
    "new": mark("New"),
    "changed": mark("Changed"),
    "gone": mark("No longer in the source"),
    "unchanged": mark("Unchanged"),
    "not_taken": mark("Not taken"),
    "collections": mark("Descriptions of collections"),
}
_LABELS_BY_KIND: Final[Mapping[str | None, Mapping[str, str]]] = {
    "aggregate source": {"name": mark("Set")},
    "mute": {"kind": mark("Kind")},
    "notification rule": {"kind": mark("When")},
    "titles": _COUNTS,
    "user": {"name": mark("User name")},
}
"""By kind of object: labels of columns whose names mean something else for other objects."""
_CHOICES: Final[Mapping[str, Callable[[], list[tuple[str, str]]]]] = {
    "channel": channels,
    "deletion_policy": policies,
    "harvest_method": methods,
    "identifiers": lambda: [*identifier_choices().items()],
    "kind": lambda: [*alert_kinds(), *mute_kinds().items(), *rule_kinds().items()],
    "language": language_choices,
    "method": methods,
    "overlap": overlaps,
    "protocol": lambda: [(one.protocol, one.title) for one in ACCESSES.values()],
    "slice": slices,
    "validation": levels,
}
"""The choices of forms by column, with labels; advice follows a colon."""
_STATES: Final[Mapping[tuple[str | None, str], Mapping[int, str]]] = {
    ("job", "status"): STATUS_WORDS,
    ("schedule", "state"): {state: state.word for state in RecurringState},
}
"""Words of stored numbers by kind of object and column."""
_NAMED: Final = frozenset({"access", "role", "state", "status", "verdict"})
"""Columns whose values are words that pages translate."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A changed column: its label, and its values as they are shown."""

    label: str
    before: str | None
    """None for a new object, and for a detail of the action."""
    after: str


def changes_of(entry: AuditEntry) -> list[Change]:
    """Return the first changed columns in the order of `LABELS`; of a new object, its values."""
    was, now = entry.before or {}, entry.after or {}
    own = _LABELS_BY_KIND.get(entry.object_kind, {})
    labels = {**own, **LABELS, **own}
    names = [name for name in labels if name in was or name in now][:_MOST]
    return [
        Change(
            label=_(labels[name]),
            before=_shown(entry, name, was.get(name)) if was else None,
            after=_shown(entry, name, now.get(name)),
        )
        for name in names
    ]


def _shown(entry: AuditEntry, name: str, value: Any) -> str:  # noqa: ANN401 any JSON value
    if value is None:
        return "–"  # noqa: RUF001 en dash intended
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if name == "frequency":
        return often(str(value))
    if isinstance(value, Mapping):
        value = [f"{kind}: {one}" for kind, one in value.items() if one]
    if isinstance(value, list):
        return _short(", ".join(map(str, value)))
    if name in _DATESTAMPS or (isinstance(value, str) and _TIME.fullmatch(value)):
        return datestamp(value) if name in _DATESTAMPS else exact(datetime.fromisoformat(value))
    word = _word(entry, name, value)
    return _(word) if name in _NAMED else _short(word)


def _word(entry: AuditEntry, name: str, value: Any) -> str:  # noqa: ANN401 any JSON value
    """Return the word for a stored code, otherwise the value."""
    words = _STATES.get((entry.object_kind, name))
    if words and value in words:
        return in_plain_words(words[value])
    choices = dict(_CHOICES[name]()) if name in _CHOICES else {}
    return choices[str(value)].partition(": ")[0] if str(value) in choices else str(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
