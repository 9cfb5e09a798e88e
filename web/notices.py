"""What a page says once about what was just done; the address names it, the words are here."""

from web.words import _


def notice_of(done: str | None) -> str | None:
    """The sentence for `?done=…`, or None for a word that is not one of ours."""
    return {
        "repository-added": _("The repository was added. Plan its first harvest next."),
        "repository-removed": _("The repository was removed. Its files were kept."),
        "harvest-asked": _("The harvest is queued and starts as soon as the manager takes it."),
        "schedule-added": _("The schedule was added."),
        "schedule-paused": _("The schedule is paused. A harvest that runs already goes on."),
        "schedule-resumed": _("The schedule goes on."),
        "schedule-removed": _("The schedule was removed."),
        "job-removed": _("The job was removed."),
        "job-stopping": _("The job is being stopped: it finishes its page, keeps what it has, and ends."),
        "run-removed": _("The entry was removed from the history."),
        "signed-out": _("You are signed out."),
    }.get(done or "")
