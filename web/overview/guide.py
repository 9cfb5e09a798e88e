"""`/help`, the guide with its glossary."""

from typing import Final

from aiohttp import web

from oai.rights import Right
from web.auth.access import needs
from web.site.i18n import _
from web.site.render import render


@needs(Right.LOOK)
async def explain(request: web.Request) -> web.Response:
    """Show the dashboard's glossary and where to find what."""
    return render(request, "help.html", words=_words(), states=_states())


def _words() -> list[tuple[str, str]]:
    return [
        (_("Repository"), _("A server that provides its records by OAI-PMH.")),
        (_("Base URL"), _("The address at which a repository answers requests.")),
        (_("Harvest"), _("Fetching a repository's records, either all or only those that have changed.")),
        (_("Set"), _("A part of a repository that can be harvested separately.")),
        (_("Metadata format"), _("The form of a record: Dublin Core (oai_dc), MARC 21, MODS, …")),
        (_("Record"), _("The description of one item, with an identifier and the time of its last change.")),
        (_("Schedule"), _("What is harvested, and how often.")),
        (_("Job"), _("One harvest that is waiting or running.")),
        (_("Run"), _("One finished harvest, as listed in the history.")),
        (_("Refused record"), _("A record that could not be read or is not valid; its raw form is stored.")),
        (_("Collection"), _("A set of archived documents, put together by the archive's staff.")),
        (
            _("Access rule"),
            _("Who may see a collection's documents: everyone, the reading room only, or no one."),
        ),
    ]


def _states() -> list[tuple[str, str]]:
    return [
        ("queued", _("It starts when a worker is free; the reason for waiting is shown beside it.")),
        ("running", _("Records are being received.")),
        ("waiting", _("The repository asked the harvester to wait.")),
        ("paused", _("A user paused it; it continues when resumed.")),
        ("completed", _("All requested records were harvested.")),
        ("completed with errors", _("It completed, but some records were refused.")),
        ("no changes", _("The repository reported no changes.")),
        ("incomplete", _("It was interrupted; the next run continues from there.")),
        ("held", _("It would delete or change so many records that it needs approval.")),
        ("failed", _("The harvest failed; see the run for the reason.")),
        ("killed", _("A user killed it.")),
        ("lost", _("Its worker stopped responding.")),
        ("missed", _("It was due while no manager was running.")),
        ("skipped (overlap)", _("It was due while the previous run was still in progress.")),
    ]


ROUTES: Final = (web.get("/help", explain),)
