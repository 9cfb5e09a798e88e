"""What validation finds in a source's MARC records: counted by rule, with records as examples."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from harvester.bibliographic.marc21.structure import Level
from harvester.bibliographic.marc_report import MarcReport, check_source
from harvester.bibliographic.stored_marc import marc_source
from harvester.models import Repository
from oai.database import Database
from oai.errors import UsageError
from oai.settings import Settings
from web.auth.access import asked_for
from web.site.i18n import _, mark
from web.site.keys import SETTINGS, database_of
from web.site.params import NUMBER
from web.site.render import render

_SIZES: Final = (100, 1000)
"""Records that are checked; the command checks all."""
_SHOWN: Final = 100
"""Kinds of findings of each level."""

RULES: Final[Mapping[str, str]] = {
    "area_form": mark("code of a geographic area"),
    "check_digit": mark("check digit"),
    "control_field_content": mark("control field with subfields"),
    "control_field_tag": mark("tag of a control field"),
    "countries_differ": mark("countries differ"),
    "data_field_tag": mark("tag of a data field"),
    "date_form": mark("form of a date"),
    "dates_differ": mark("dates differ"),
    "dates_reversed": mark("end before the beginning"),
    "element_order": mark("order of elements"),
    "field_length": mark("length of a field"),
    "former_country": mark("former code of a country"),
    "former_language": mark("former code of a language"),
    "indicator_form": mark("form of an indicator"),
    "languages_differ": mark("languages differ"),
    "leader_form": mark("form of the leader"),
    "leader_length": mark("length of the leader"),
    "leader_missing": mark("missing leader"),
    "leader_repeated": mark("repeated leader"),
    "missing_field": mark("missing field"),
    "missing_linkage": mark("missing linkage"),
    "no_subfields": mark("field without subfields"),
    "number_form": mark("form of a standard number"),
    "obsolete_field": mark("obsolete field"),
    "repeated_field": mark("repeated field"),
    "repeated_subfield": mark("repeated subfield"),
    "several_codes": mark("several codes in a subfield"),
    "several_main_entries": mark("several main entries"),
    "stray_text": mark("text outside fields"),
    "subfield_code": mark("code of a subfield"),
    "time_form": mark("form of a time"),
    "undefined_code": mark("undefined code"),
    "undefined_country": mark("undefined code of a country"),
    "undefined_field": mark("undefined field"),
    "undefined_indicator": mark("undefined indicator"),
    "undefined_language": mark("undefined code of a language"),
    "undefined_subfield": mark("undefined subfield"),
    "unknown_element": mark("unknown element"),
}
"""What the codes of `harvester.bibliographic.marc21` mean, in a few words."""
_LEVELS: Final[Mapping[Level, str]] = {
    Level.STRUCTURE: mark("Structure"),
    Level.DESIGNATIONS: mark("Fields, indicators and subfields"),
    Level.CODED_VALUES: mark("Coded values and dates"),
}


async def show(request: web.Request) -> web.Response:
    """Check some stored records of the source, chosen at random, and show what is wrong with them."""
    repository = await asked_for(request, Repository)
    level, size = Level(_chosen(request, "level", tuple(Level))), _chosen(request, "records", _SIZES)
    number, settings = repository.repository_id, request.config_dict[SETTINGS]
    try:
        report = await database_of(request).run_apart(_checked, settings, number, level, size)
    except UsageError:
        # Harvested formats are on the page of the source.
        report = None
    return render(
        request,
        "import_marc.html",
        repository=repository,
        name=repository.display_name,
        report=report,
        levels=[(int(one), _(title), _of_level(report, one)) for one, title in _LEVELS.items()],
        level=int(level),
        size=size,
        sizes=_SIZES,
        rules=RULES,
        shown=_SHOWN,
    )


def _chosen(request: web.Request, name: str, choices: tuple[int, ...]) -> int:
    """Return the chosen number from the query string; without a valid one, the level 3 or 100 records."""
    given = request.query.get(name, "")
    return int(given) if given in set(map(str, map(int, choices))) else _DEFAULTS[name]


_DEFAULTS: Final = {"level": int(Level.CODED_VALUES), "records": _SIZES[0]}


def _checked(
    database: Database, settings: Settings, repository_id: int, level: Level, most: int
) -> MarcReport:
    return check_source(database, marc_source(database, settings, repository_id), level=level, most=most)


def _of_level(report: MarcReport | None, level: Level) -> list[object]:
    return [one for one in report.ranked() if one.level == level] if report else []


ROUTES = (web.get(f"/imports/{NUMBER}/marc", show),)
