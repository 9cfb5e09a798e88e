"""What a page says once about what was just done; the address names it, the words are here."""

from web.words import _


def notice_of(done: str | None) -> str | None:
    """The sentence for `?done=…`, or None for a word that is not one of ours."""
    return {
        "repository-added": _("The repository was added. Plan its first harvest next."),
        "repository-removed": _("The repository was removed. Its files were kept."),
        "repository-changed": _("The repository was changed."),
        "repository-asked": _("The repository was asked again; what it says is shown here."),
        "schedule-changed": _("The schedule was changed; its next run is planned anew."),
        "job-paused": _("The job is paused: it waits until it is resumed. One that runs finishes its page."),
        "job-resumed": _("The job goes on."),
        "job-killed": _("The harvest is being ended at once. What was committed is kept."),
        "run-released": _("The run is released."),
        "runs-removed": _("The entries were removed from the history."),
        "harvest-asked": _("The harvest is queued and starts as soon as the manager takes it."),
        "schedule-added": _("The schedule was added."),
        "schedule-paused": _("The schedule is paused. A harvest that runs already goes on."),
        "schedule-resumed": _("The schedule goes on."),
        "schedule-removed": _("The schedule was removed."),
        "job-removed": _("The job was removed."),
        "job-stopping": _("The job is being stopped: it finishes its page, keeps what it has, and ends."),
        "run-removed": _("The entry was removed from the history."),
        "document-hidden": _("The document is hidden; harvesters are told that it is deleted."),
        "document-shown": _("The document is shown again."),
        "collection-added": _("The collection was made. Put documents in next."),
        "collection-changed": _("The collection was changed."),
        "collection-removed": _("The collection was removed. Its documents stay in the archive."),
        "rule-changed": _("The rule was changed, and its documents follow it."),
        "documents-assigned": _("The documents were put in."),
        "documents-taken-out": _("The documents were taken out."),
        "check-started": _("The self-test has begun. Look again in a moment."),
        "signed-out": _("You are signed out."),
        "signed-out-everywhere": _("You are signed out on every browser."),
        "password-changed": _("The password was changed. Other browsers were signed out."),
        "language-changed": _("The language was changed."),
        "session-ended": _("That browser was signed out."),
        "token-revoked": _("The token was revoked; nobody gets in with it any more."),
        "user-changed": _("The user was changed."),
        "user-disabled": _("The user was disabled: sessions ended, API tokens are not taken any more."),
        "user-enabled": _("The user may sign in again."),
        "organisation-added": _("The organisation was added."),
        "organisation-changed": _("The organisation was changed."),
        "organisation-removed": _(
            "The organisation was removed. Its repositories are the administrators' now."
        ),
        "repository-given": _("The repository, its schedules and jobs have a new owner."),
    }.get(done or "")
