"""What a page says once about what was just done; the address names it, the words are here."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from web.words import _, mark

_SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "repository-added": mark("The repository was added. Plan its first harvest next."),
        "repository-removed": mark("The repository was removed. Its files were kept."),
        "repository-changed": mark("The repository was changed."),
        "repository-asked": mark("The repository was asked again; what it says is shown here."),
        "alert-added": mark("The rule was added. Try it, to see that messages arrive."),
        "alert-changed": mark("The rule was changed."),
        "alert-removed": mark("The rule was removed."),
        "alert-tried": mark("The manager sends a trial now; what becomes of it shows under Messages."),
        "schedule-changed": mark("The schedule was changed; its next run is planned anew."),
        "job-paused": mark(
            "The job is paused: it waits until it is resumed. One that runs finishes its page."
        ),
        "job-resumed": mark("The job goes on."),
        "job-killed": mark("The harvest is being ended at once. What was committed is kept."),
        "run-released": mark("The run is released."),
        "runs-removed": mark("The entries were removed from the history."),
        "harvest-asked": mark("The harvest is queued and starts as soon as the manager takes it."),
        "schedule-added": mark("The schedule was added."),
        "schedule-paused": mark("The schedule is paused. A harvest that runs already goes on."),
        "schedule-resumed": mark("The schedule goes on."),
        "schedule-removed": mark("The schedule was removed."),
        "job-removed": mark("The job was removed."),
        "job-stopping": mark("The job is being stopped: it finishes its page, keeps what it has, and ends."),
        "run-removed": mark("The entry was removed from the history."),
        "document-hidden": mark("The document is hidden; harvesters are told that it is deleted."),
        "document-shown": mark("The document is shown again."),
        "collection-added": mark("The collection was made. Put documents in next."),
        "collection-changed": mark("The collection was changed."),
        "collection-removed": mark("The collection was removed. Its documents stay in the archive."),
        "rule-made": mark("The rule was saved. Name its file in a schedule to use it."),
        "rule-saved": mark("The rule is saved; the next harvest reads it as it is now."),
        "rule-restored": mark("The old version is in force again."),
        "rule-removed": mark("The rule was removed. Its file was kept."),
        "replay-begun": mark("The replay has begun; its result will stand in the history."),
        "import-begun": mark("The import begins; its figures grow on this page."),
        "import-changed": mark("The source is set."),
        "set-saved": mark("The filtering set is saved."),
        "set-removed": mark("The filtering set was removed."),
        "rule-changed": mark("The rule was changed, and its documents follow it."),
        "documents-assigned": mark("The documents were put in."),
        "documents-taken-out": mark("The documents were taken out."),
        "check-started": mark("The self-test has begun. Look again in a moment."),
        "signed-out": mark("You are signed out."),
        "signed-out-everywhere": mark("You are signed out on every browser."),
        "password-changed": mark("The password was changed. Other browsers were signed out."),
        "language-changed": mark("The language was changed."),
        "time-zone-changed": mark("The time zone was changed."),
        "session-ended": mark("That browser was signed out."),
        "token-revoked": mark("The token was revoked; nobody gets in with it any more."),
        "user-changed": mark("The user was changed."),
        "user-disabled": mark("The user was disabled: sessions ended, API tokens are not taken any more."),
        "user-enabled": mark("The user may sign in again."),
        "organisation-added": mark("The organisation was added."),
        "organisation-changed": mark("The organisation was changed."),
        "organisation-removed": mark(
            "The organisation was removed. Its repositories are the administrators' now."
        ),
        "repository-given": mark("The repository, its schedules and jobs have a new owner."),
    }
)


def notice_of(done: str | None) -> str | None:
    """The sentence for `?done=…`, or None for a word that is not one of ours."""
    sentence = _SENTENCES.get(done or "")
    return None if sentence is None else _(sentence)
