"""Translations: every text for people goes through `_`, in templates and in Python.

English is the source language; the `languages` middleware sets the request's language in `translations`.
`mark` is for texts in module constants, evaluated before any request: it only marks them for extraction.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from gettext import NullTranslations, c2py
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from aiohttp import web
from aiohttp.typedefs import Handler

from oai.errors import ZatvaError
from oai.languages import LANGUAGES, SOURCE, accepted, minute

# Context variables: concurrent requests have separate values, which `DatabaseThreads` copies to threads.
translations: ContextVar[NullTranslations] = ContextVar("translations", default=NullTranslations())  # noqa: B039 never changed
language: ContextVar[str] = ContextVar("language", default="en")
"""Language code of the request's pages."""
zone: ContextVar[ZoneInfo] = ContextVar("zone", default=ZoneInfo("UTC"))  # noqa: B039 never changed
"""Time zone of the request, which `web.site.zones` sets."""
_KEYWORD: Final = re.compile(r'(msgid_plural|msgid|msgstr)(?:\[(\d+)\])?\s+(".*")$')
_PLURALS: Final = re.compile(r"^Plural-Forms:.*\bplural=([^;\n]+)", re.MULTILINE)
_FUZZY: Final = "#, "
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


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message and its translations: one, or one for each plural form."""

    source: str
    plural: str | None
    translations: tuple[str, ...]
    fuzzy: bool

    @property
    def is_complete(self) -> bool:
        """Return whether every form is translated and none is marked fuzzy."""
        return bool(self.translations) and all(self.translations) and not self.fuzzy


@dataclass
class _Draft:
    parts: dict[str, str] = field(default_factory=dict)
    fuzzy: bool = False
    key: str = ""

    def take(self, line: str) -> None:
        found = _KEYWORD.match(line)
        if found:
            self.key = found[1] + (f"[{found[2]}]" if found[2] else "")
        text = found[3] if found else line
        # A string in the PO format is also a Python string.
        self.parts[self.key] = self.parts.get(self.key, "") + ast.literal_eval(text)

    def message(self) -> Message:
        return Message(
            source=self.parts.get("msgid", ""),
            plural=self.parts.get("msgid_plural"),
            translations=tuple(text for key, text in sorted(self.parts.items()) if key.startswith("msgstr")),
            fuzzy=self.fuzzy,
        )


class Catalogue(NullTranslations):
    """Messages of one language for gettext's calls; missing translations fall back to the source text."""

    def __init__(self, messages: list[Message]) -> None:
        super().__init__()
        self._texts = {message.source: message.translations for message in messages if message.is_complete}
        self._form = c2py(_plural_forms(messages))

    def gettext(self, message: str) -> str:
        """Return the message in this language."""
        found = self._texts.get(message) if message else None
        return found[0] if found else message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """Return the message in the plural form for that number."""
        found = self._texts.get(msgid1)
        if not found:
            return msgid1 if n == 1 else msgid2
        return found[min(self._form(n), len(found) - 1)]


def read_catalogue(text: str) -> list[Message]:
    """Return every message of a catalogue; the first, with an empty source, is its header.

    Raises ValueError for a line that the PO format does not allow.
    """
    return list(_messages(text))


def _messages(text: str) -> Iterator[Message]:
    draft = _Draft()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#~") or not line.strip():
            continue
        if (line.startswith(("#", "msgid "))) and any(key.startswith("msgstr") for key in draft.parts):
            yield draft.message()
            draft = _Draft()
        if line.startswith("#"):
            draft.fuzzy = draft.fuzzy or (line.startswith(_FUZZY) and "fuzzy" in line)
            continue
        try:
            draft.take(line)
        except (ValueError, SyntaxError):
            raise ValueError(f"line {number} of the catalogue: {line!r} is not in PO format") from None
    if draft.parts:
        yield draft.message()


def _plural_forms(messages: list[Message]) -> str:
    header: Mapping[str, str] = {message.source: "".join(message.translations) for message in messages}
    found = _PLURALS.search(header.get("", ""))
    return found[1].strip() if found else "n != 1"


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
    file = CATALOGUES / f"{code}.po"
    if code == SOURCE or code not in LANGUAGES:
        return NullTranslations()
    return Catalogue(read_catalogue(file.read_text(encoding="utf-8")))
