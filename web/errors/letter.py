"""The letter about a broken record to the repository's administrator, in a chosen language."""

from contextvars import copy_context
from dataclasses import dataclass
from typing import Final

from harvester.harvest.models import Quarantined
from harvester.models import Repository
from web.errors.raw_bytes import RawView
from web.errors.repairs import Proposal
from web.site.failures import in_words
from web.site.i18n import _, speak

_LONGEST_LINE: Final = 300


@dataclass(frozen=True, kw_only=True)
class ErrorLetter:
    """A letter as plain text."""

    subject: str
    body: str


def letter_about(
    error: Quarantined,
    repository: Repository,
    *,
    language: str,
    address: str | None,
    view: RawView,
    proposal: Proposal | None,
    signature: str,
) -> ErrorLetter:
    """Return the letter; `address` requests the record alone, if its identifier is known."""

    def write() -> ErrorLetter:
        speak(language)
        return _written(error, repository, address, view, proposal, signature)

    # In a context of its own, so that the page around the letter stays in the reader's language.
    return copy_context().run(write)


def _written(
    error: Quarantined,
    repository: Repository,
    address: str | None,
    view: RawView,
    proposal: Proposal | None,
    signature: str,
) -> ErrorLetter:
    name = repository.repository_name or repository.base_url
    words = in_words(error.failure)
    faulty = next((line for line in view.lines if line.faulty), None)
    lines = [
        _("Dear colleague,"),
        "",
        _("we harvest your repository %(name)s over OAI-PMH. One of its records cannot be read.")
        % {"name": name},
        "",
        words.what,
        _("Record: %(identifier)s") % {"identifier": error.identifier or "-"},
        _("Metadata format: %(prefix)s") % {"prefix": error.metadata_prefix},
        _("Request: %(address)s") % {"address": address or error.url},
        _("Error message: %(reason)s") % {"reason": error.reason},
    ]
    if faulty is not None:
        lines += [
            _("Line %(number)s:") % {"number": faulty.number},
            f"    {faulty.text.strip()[:_LONGEST_LINE]}",
        ]
    if proposal is not None and proposal.changes:
        change = proposal.changes[0]
        lines += [
            _("It can be read when this is changed:"),
            f"    {change.before}{change.old}{change.after}",
            f"    {change.before}{change.new}{change.after}",
        ]
    lines += ["", _("We would be glad if you could correct it."), "", _("Kind regards"), signature]
    subject = _("A record of %(name)s cannot be harvested") % {"name": name}
    return ErrorLetter(subject=subject, body="\n".join(lines) + "\n")
