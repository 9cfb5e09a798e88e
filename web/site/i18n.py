"""Translations: every text for people goes through `_`, in templates and in Python.

English is the source language; the `languages` middleware sets the request's language in `translations`.
`mark` is for texts in module constants, evaluated before any request: it only marks them for extraction.
"""

from contextvars import ContextVar
from functools import cache
from gettext import GNUTranslations, NullTranslations
from io import BytesIO
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from aiohttp import web
from aiohttp.typedefs import Handler
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from oai.errors import ZatvaError
from oai.languages import LANGUAGES, SOURCE, accepted, minute

# Context variables: concurrent requests have separate values, which `DatabaseThreads` copies to threads.
translations: ContextVar[NullTranslations] = ContextVar("translations", default=NullTranslations())  # noqa: B039 never changed
language: ContextVar[str] = ContextVar("language", default="en")
"""Language code of the request's pages."""
zone: ContextVar[ZoneInfo] = ContextVar("zone", default=ZoneInfo("UTC"))  # noqa: B039 never changed
"""Time zone of the request, which `web.site.zones` sets."""
LANGUAGE_COOKIE: Final = "zatva_language"
"""Holds the language chosen before signing in."""
CATALOGUES: Final = Path(__file__).parent.parent / "translations"
"""The directory of `cs.po` and `sk.po`."""


def _(message: str) -> str:
    """Return the message in the request's language."""
    return translations.get().gettext(message)


def ngettext(singular: str, plural: str, count: int) -> str:
    """Return the plural form for that number, in the request's language."""
    return translations.get().ngettext(singular, plural, count)


def error_text(error: Exception) -> str:
    """Return an error's text, in the request's language and time zone if it is one of our errors."""
    if not isinstance(error, ZatvaError):
        return str(error)
    return error.in_words(_, lambda moment: minute(moment, language.get(), zone.get()))


def mark(message: str) -> str:
    """Return the message unchanged; it is translated where it is shown."""
    return message


@web.middleware
async def languages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Set the language chosen in this browser or in its settings, until the user is known."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    use_language(chosen if chosen in LANGUAGES else accepted(request.headers.get("Accept-Language", "")))
    return await handler(request)


def use_language(code: str) -> None:
    """Set the language of this request."""
    translations.set(catalogue(code))
    language.set(code if code in LANGUAGES else SOURCE)


@cache
def catalogue(code: str) -> NullTranslations:
    """Return the texts in that language; English and unsupported languages have the source texts."""
    if code == SOURCE or code not in LANGUAGES:
        return NullTranslations()
    compiled = BytesIO()
    write_mo(compiled, read_catalogue(code))
    compiled.seek(0)
    return _Catalogue(compiled)


def read_catalogue(code: str) -> Catalog:
    """Return the messages of a language's PO file; raises PoFileError for a malformed line."""
    with (CATALOGUES / f"{code}.po").open("rb") as file:
        return read_po(file, locale=code, abort_invalid=True)


class _Catalogue(GNUTranslations):
    def gettext(self, message: str) -> str:
        # The empty message is the key of the file's header.
        return super().gettext(message) if message else message
