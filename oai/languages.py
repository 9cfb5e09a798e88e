"""The languages of pages for people, and the one that a browser asks for."""

from types import MappingProxyType
from typing import Final

LANGUAGES: Final = MappingProxyType({"en": "English", "cs": "Čeština", "sk": "Slovenčina"})
"""Language codes with each language's own name."""
SOURCE: Final = "en"
"""The language of texts in the code, and of readers whose languages are not supported."""


def accepted(header: str) -> str:
    """Return the best supported language for an Accept-Language header (RFC 9110, 12.5.4), or English."""
    best, found = 0.0, SOURCE
    for part in header.split(","):
        name, _, parameters = part.strip().partition(";")
        code = name.strip().lower().partition("-")[0]
        weight = _weight(parameters)
        if code in LANGUAGES and weight > best:
            best, found = weight, code
    return found


def _weight(parameters: str) -> float:
    name, _, value = parameters.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
