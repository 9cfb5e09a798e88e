"""How long repositories are waited for while a person waits for the page."""

from typing import Final

from oai.settings import Settings

_SECONDS: Final = 30.0
_LONGEST_RETRY_AFTER: Final = 2.0


def impatient(settings: Settings) -> Settings:
    """The settings for a person who waits for the answer: short waits."""
    patient = settings.harvester
    short = {
        "timeout": min(patient.timeout, _SECONDS),
        "max_wait": min(patient.max_wait, _LONGEST_RETRY_AFTER),
    }
    return settings.model_copy(update={"harvester": patient.model_copy(update=short)})
