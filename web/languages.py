"""The languages of the dashboard: their catalogues, and which one a request gets."""

from functools import cache
from gettext import NullTranslations
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from web import words
from web.messages import Catalogue, read_catalogue

LANGUAGES: Final = MappingProxyType({"en": "English", "cs": "Čeština", "sk": "Slovenčina"})
"""Codes, and what the languages call themselves."""
SOURCE: Final = "en"
CATALOGUES: Final = Path(__file__).parent / "translations"
"""The folder of `cs.po` and `sk.po`."""


@web.middleware
async def languages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Speak the language that the browser asks for, until it is known whose it is."""
    speak(accepted(request.headers.get("Accept-Language", "")))
    return await handler(request)


def speak(code: str) -> None:
    """Let the texts of this request be in that language."""
    words.translations.set(catalogue(code))
    words.language.set(code if code in LANGUAGES else SOURCE)


@cache
def catalogue(code: str) -> NullTranslations:
    """The texts in that language; those of English, and of a language that we lack, are as they are."""
    file = CATALOGUES / f"{code}.po"
    if code == SOURCE or code not in LANGUAGES:
        return NullTranslations()
    return Catalogue(read_catalogue(file.read_text(encoding="utf-8")))


def accepted(header: str) -> str:
    """The best of our languages by an Accept-Language header (RFC 9110, section 12.5.4), or English."""
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
