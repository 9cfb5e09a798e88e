"""The settings with what a command's options change for this one run."""

from argparse import Namespace

from pydantic import ValidationError

from oai.errors import UsageError
from oai.sections import HarvesterSettings
from oai.settings import Settings

_OPTIONS = ("timeout", "retries", "delay", "max_wait", "user_agent", "keep_raw")


def overridden(settings: Settings, arguments: Namespace) -> Settings:
    """The settings in which the options that were given win. Raises UsageError for a value out of range."""
    given = {name: getattr(arguments, name, None) for name in _OPTIONS}
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        return settings
    try:
        harvester = HarvesterSettings.model_validate(settings.harvester.model_dump() | changes)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        option = "--" + str(fault["loc"][0]).replace("_", "-")
        raise UsageError(f"{option} {fault['input']}: {fault['msg']}") from None
    return settings.model_copy(update={"harvester": harvester})
