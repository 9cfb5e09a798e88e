"""Letters to a repository's administrator, about a record, a run or the diagnostics, in a chosen language."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from harvester.harvest.models import Quarantined
from harvester.models import History, Repository
from harvester.probing.findings import Report
from harvester.probing.report import letter as diagnostics_letter
from harvester.vocabulary import RunStatus
from oai.failure_codes import NOT_STARTED, FailureCode
from oai.languages import LANGUAGES, minute_in_utc
from oai.outgoing import mail_link
from web.auth.access import who_asks
from web.auth.organisations import organisation_name
from web.errors.raw_bytes import RawView
from web.errors.repairs import Proposal
from web.site.failures import in_words, of_run
from web.site.formats import number
from web.site.i18n import _, language, use_language
from web.site.keys import database_of

_NO_LETTER: Final = NOT_STARTED | {
    FailureCode.ADDRESS_PRIVATE,
    FailureCode.RULES,
    FailureCode.REQUEST_INVALID,
    FailureCode.INTERRUPTED,
    FailureCode.DATABASE,
    FailureCode.DISK_FULL,
    FailureCode.DISK_FLOOR,
    FailureCode.DISK_INODES,
    FailureCode.QUOTA_RECORDS,
    FailureCode.QUOTA_BYTES,
    FailureCode.PLACE_UNUSABLE,
    FailureCode.INTERNAL_ERROR,
    FailureCode.PROCESS_RESTARTED,
    FailureCode.PROCESS_NOT_STARTED,
    FailureCode.PROCESS_SIGNALLED,
    FailureCode.PROCESS_EXITED,
    FailureCode.PROCESS_NOT_READY,
    FailureCode.SERVER_BUSY,
}
"""Failures about which a repository's administrator can do nothing, or that pass by themselves."""
_EXAMPLES: Final = 5
"""Records of each kind that a letter names."""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A letter as plain text, without greeting and signature."""

    subject: str
    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What letters show of a record that was rejected, and its page, too."""

    address: str | None
    """Requests the record alone, if its identifier is known."""
    view: RawView
    proposal: Proposal | None


async def letter_part(
    request: web.Request, emails: str | None, write: Callable[[], Letter]
) -> Mapping[str, Any]:
    """Return what `letter.html` shows; `write` is called in the language of the query string.

    The letter goes to the first of the addresses, which are separated by commas.
    """
    chosen = request.query.get("letter", "")
    chosen = chosen if chosen in LANGUAGES else language.get()
    who = who_asks(request)
    organisation = await database_of(request).run(organisation_name, who.organisation_id)
    signature = ", ".join(filter(None, (who.name, organisation)))

    def signed() -> tuple[str, str]:
        use_language(chosen)
        letter = write()
        lines = [_("Dear colleague,"), "", *letter.lines, "", _("Kind regards"), signature]
        return letter.subject, "\n".join(lines) + "\n"

    # In a context of its own, so that the page around the letter stays in the reader's language.
    subject, body = copy_context().run(signed)
    to = (emails or "").partition(",")[0].strip()
    return {
        "letter": body,
        "written_in": chosen,
        "languages": LANGUAGES,
        "mail": mail_link(to, subject=subject, body=body) if to else None,
    }


def concerns_repository(run: History) -> bool:
    """Return whether the repository's administrator is written to about the reason of the run's outcome.

    The letter about a rejected record is on the page of the record.
    """
    if run.status == RunStatus.COMPLETED_WITH_ERRORS and run.failure_code is None:
        return False
    failed = run.status in {RunStatus.FAILED, RunStatus.COMPLETED_WITH_ERRORS}
    return failed and run.failure_code not in _NO_LETTER


def letter_about_run(run: History, repository: Repository, curl: str) -> Letter:
    """Return the letter about a run that failed, or that received only some of the records.

    `curl` is a command that repeats its request.
    """
    name = repository.display_name
    failure = of_run(run)
    opening = _("we harvest your repository %(name)s over OAI-PMH. The last harvest failed.")
    subject, received = _("%(name)s cannot be harvested"), _("Records received before: %(records)s")
    records = run.record_count
    if run.status == RunStatus.COMPLETED_WITH_ERRORS:
        opening = _(
            "we harvest your repository %(name)s over OAI-PMH. "
            "The last harvest may have received only some of the records."
        )
        subject, received = _("%(name)s cannot be harvested completely"), _("Records received: %(records)s")
        records += run.invalid_count
    lines = [
        opening % {"name": name},
        "",
        *([failure.what] if failure else []),
        _("Time: %(time)s") % {"time": minute_in_utc(run.harvest_end_time, language.get())},
        _("Metadata format: %(prefix)s") % {"prefix": run.metadata_prefix},
        *([_("Set: %(set)s") % {"set": run.set_spec}] if run.set_spec else []),
        *([_("Error message: %(reason)s") % {"reason": run.failure_reason}] if run.failure_reason else []),
        received % {"records": number(records)},
        _("The request can be repeated with:"),
        f"    {curl}",
        "",
        _("We would be glad if you could look at the cause."),
    ]
    return Letter(subject=subject % {"name": name}, lines=lines)


def letter_about_report(report: Report) -> Letter:
    """Return the letter about what the diagnostics found."""
    words = diagnostics_letter(report, _, language.get())
    # After the greeting, the sentence goes on.
    return Letter(
        subject=_("Results of checking your OAI-PMH repository"), lines=[words[:1].lower() + words[1:]]
    )


def letter_about(error: Quarantined, repository: Repository, known: Evidence) -> Letter:
    """Return the letter about a record."""
    name = repository.display_name
    words = in_words(error.failure)
    opening = _("we harvest your repository %(name)s over OAI-PMH. One of its records cannot be read.")
    subject = _("A record of %(name)s cannot be harvested")
    which = _("Record: %(identifier)s") % {"identifier": error.identifier or "-"}
    if error.date_range:
        opening = _("we harvest your repository %(name)s over OAI-PMH. A part of its list cannot be read.")
        subject = _("A part of %(name)s cannot be harvested")
        which = _("Date range: %(range)s") % {"range": error.date_range}
    lines = [
        opening % {"name": name},
        "",
        words.what,
        which,
        *_evidence(error, known),
        "",
        _("We would be glad if you could correct it."),
    ]
    return Letter(subject=subject % {"name": name}, lines=lines)


def letter_about_errors(
    groups: Sequence[tuple[Sequence[Quarantined], Evidence]], repository: Repository, *, complete: bool
) -> Letter:
    """Return the letter about the errors of a run, by kind, each with what is known of its first one.

    It says so if the errors are not `complete`.
    """
    name = repository.display_name
    lines = [_("we harvest your repository %(name)s over OAI-PMH. Some of its records cannot be read.")]
    for errors, evidence in groups:
        shown = [error.identifier or error.date_range or "-" for error in errors[:_EXAMPLES]]
        more = [_("and more")] if len(errors) > len(shown) else []
        lines += ["", f"{in_words(errors[0].failure).what} ({number(len(errors))})"]
        lines += [f"    {text}" for text in (*shown, *more)]
        lines += [_("The first of them:"), *_evidence(errors[0], evidence)]
    lines += [] if complete else ["", _("There are more records that cannot be read than these.")]
    lines += ["", _("We would be glad if you could correct them.")]
    subject = _("Records of %(name)s cannot be harvested")
    return Letter(subject=subject % {"name": name}, lines=[lines[0] % {"name": name}, *lines[1:]])


def _evidence(error: Quarantined, known: Evidence) -> list[str]:
    """Return where the fault is, and what corrects it."""
    view, proposal = known.view, known.proposal
    faulty = next((line for line in view.lines if line.faulty), None)
    lines = [
        _("Metadata format: %(prefix)s") % {"prefix": error.metadata_prefix},
        _("Request: %(address)s") % {"address": known.address or error.url},
        _("Error message: %(reason)s") % {"reason": view.reason(error.reason)},
    ]
    if faulty is not None:
        where = _("Line %(number)s, column %(column)s:") if faulty.column else _("Line %(number)s:")
        place = {"number": faulty.number, "column": faulty.column}
        lines += [where % place, f"    {view.quotation}"]
    if proposal is not None and proposal.changes:
        lines.append(_("It can be read when this is changed:"))
        for change in proposal.changes:
            lines += [f"    {change.before}{text}{change.after}" for text in (change.old, change.new)]
        lines += [f"    {_('and more')}"] if proposal.more else []
    return lines
