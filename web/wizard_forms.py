"""What the steps of adding a repository carry: checked as a whole, with defaults for what was not chosen."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from multidict import MultiDict

from harvester.access import access_of
from harvester.repositories import RepositoryFacts
from web.addresses import PlacedForm
from web.forms import Form, read_form
from web.planning import PlanForm
from web.zones import here


class WizardForm(PlanForm, PlacedForm):
    """All steps together: address and folder are needed, everything else has a default."""


def read_steps(values: Mapping[str, Any], context: Mapping[str, Any]) -> tuple[WizardForm | None, Form]:
    """The steps, checked, or None where something is wrong; and the form to show again."""
    known = {**values}
    known.setdefault("base_dir", "sample")
    asked, form = read_form(WizardForm, MultiDict(known), context)
    return asked, Form(values=values, errors=form.errors, problem=form.problem)


def fill_in(values: dict[str, str], facts: RepositoryFacts) -> None:
    """Defaults for what was not chosen yet."""
    access = access_of(facts.protocol)
    prefixes = [found.metadata_prefix for found in facts.formats]
    usual = access.usual_format
    host = (urlsplit(values["base_url"]).hostname or "repository").removeprefix("www.")
    defaults = {
        "metadata_prefix": usual if usual in prefixes or not prefixes else prefixes[0],
        "repository_name": facts.identity.repository_name if facts.identity else "",
        "base_dir": host,
        "frequency": "weekly on saturday at 01:00",
        "time_zone": here().key,
        "validation": "2",
        "method": "0",
    }
    if "step" not in values and access.query is None:
        defaults["incremental"] = "yes"
    for name, value in defaults.items():
        values.setdefault(name, value)
