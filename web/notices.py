"""What a page says once about what was just done; the address names it, the words are here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from web.words import _, mark

_SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "repository-added": mark("The repository was added. Schedule its first harvest next."),
        "repository-removed": mark("The repository was removed. Its files are kept."),
        "repository-changed": mark("The repository was changed."),
        "repository-asked": mark("The repository's details were refreshed."),
        "alert-added": mark("The rule was added. Send a test message to check the delivery."),
        "alert-changed": mark("The rule was changed."),
        "alert-removed": mark("The rule was removed."),
        "alert-tried": mark("The manager is sending a test message; see its state under Messages."),
        "schedule-changed": mark("The schedule was changed; its next run is being planned."),
        "job-paused": mark(
            "The job is paused until you resume it. A running harvest finishes its page first."
        ),
        "job-resumed": mark("The job was resumed."),
        "job-killed": mark("The harvest is being killed. Committed records are kept."),
        "run-released": mark("The run was approved."),
        "runs-removed": mark("The entries were removed from the history."),
        "harvest-asked": mark("The harvest is queued and starts as soon as a worker is free."),
        "schedule-added": mark("The schedule was added."),
        "schedule-paused": mark("The schedule is paused. A harvest that is already running continues."),
        "schedule-resumed": mark("The schedule was resumed."),
        "schedule-removed": mark("The schedule was removed."),
        "job-removed": mark("The job was removed."),
        "job-stopping": mark("The job is stopping: it finishes its page and keeps what it has stored."),
        "run-removed": mark("The entry was removed from the history."),
        "document-hidden": mark("The document is hidden; harvesters see it as deleted."),
        "document-shown": mark("The document is no longer hidden."),
        "collection-added": mark("The collection was created. Add documents next."),
        "collection-changed": mark("The collection was changed."),
        "collection-removed": mark("The collection was removed. Its documents stay in the archive."),
        "rule-made": mark("The rule was saved. To use it, enter its file name in a schedule."),
        "rule-saved": mark("The rule was saved; the next harvest uses this version."),
        "rule-restored": mark("The earlier version was restored."),
        "rule-removed": mark("The rule was removed. Its file is kept."),
        "replay-begun": mark("The replay has started; its result will appear in the history."),
        "import-begun": mark("The import has started; its figures are updated on this page."),
        "import-changed": mark("The import settings were saved."),
        "set-saved": mark("The filtering set was saved."),
        "set-removed": mark("The filtering set was removed."),
        "rule-changed": mark("The rule was changed; it is being applied to the documents."),
        "documents-assigned": mark("The documents were added to the collection."),
        "documents-taken-out": mark("The documents were removed from the collection."),
        "check-started": mark("The self-test has started. Refresh the page in a moment."),
        "signed-out": mark("You are signed out."),
        "signed-out-everywhere": mark("You are signed out in all browsers."),
        "password-changed": mark("The password was changed. Other browsers were signed out."),
        "language-changed": mark("The language was changed."),
        "time-zone-changed": mark("The time zone was changed."),
        "session-ended": mark("The browser was signed out."),
        "token-revoked": mark("The token was revoked and is no longer valid."),
        "user-changed": mark("The user was changed."),
        "user-disabled": mark(
            "The user was disabled: all sessions ended, and API tokens are no longer accepted."
        ),
        "user-enabled": mark("The user was enabled."),
        "organisation-added": mark("The organisation was added."),
        "organisation-changed": mark("The organisation was changed."),
        "organisation-removed": mark(
            "The organisation was removed. Its repositories now belong to the administrators."
        ),
        "repository-given": mark("The repository with its schedules and jobs was assigned."),
    }
)


def notice_of(done: str | None) -> str | None:
    """The sentence for `?done=…`, or None for a word that is not one of ours."""
    sentence = _SENTENCES.get(done or "")
    return None if sentence is None else _(sentence)
