"""Texts of the public pages in each language, from `translations/`; numbers, dates and plurals by Babel."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from babel import Locale
from babel.core import get_global
from babel.dates import format_date, format_time
from babel.numbers import format_decimal

from oai.languages import LANGUAGES, accepted, conventions

FOLDER: Final = Path(__file__).parent / "translations"
_SHORT_CODES: Final[Mapping[str, str]] = get_global("language_aliases")
"""Codes of two letters by codes of three letters: `cs` by `cze` and `ces`."""

Forms = Mapping[str, str]
"""A text that depends on a number: its forms by plural category of Unicode CLDR."""


@dataclass(frozen=True, kw_only=True)
class Texts:
    """The texts in one language."""

    code: str
    locale: Locale
    texts: Mapping[str, str | Forms]

    def __call__(self, key: str, **values: str) -> str:
        """Return a text; `values` replace its `{names}`. Raises KeyError for an unknown key."""
        found = self.texts[key]
        if not isinstance(found, str):
            raise KeyError(f"{key}: depends on a number")
        return found.format(**values) if values else found

    def count(self, key: str, number: int, *, more: bool = False) -> str:
        """Return the form of a text for this number; with `more`, for more than that."""
        forms = self.texts[key]
        if isinstance(forms, str):
            raise KeyError(f"{key}: does not depend on a number")
        text = forms[self.locale.plural_form(number)].format(count=self.number(number))
        return self("more_than", number=text) if more else text

    def number(self, value: int) -> str:
        """Return a number with separators."""
        return format_decimal(value, locale=self.locale)

    def day(self, moment: datetime) -> str:
        """Return the day of a time, UTC, in words."""
        return format_date(moment.astimezone(UTC), "long", self.locale)

    def minute(self, moment: datetime) -> str:
        """Return day and time, UTC."""
        return f"{self.day(moment)} {format_time(moment.astimezone(UTC), 'HH:mm', locale=self.locale)} UTC"

    def language(self, code: str) -> str:
        """Return the name of a language (ISO 639); its code if CLDR has no name."""
        return str(self.locale.languages.get(short_code(code), code))


def short_code(code: str) -> str:
    """Return a language's code of two letters if it has one (BCP 47), otherwise the code itself."""
    return _SHORT_CODES.get(code, code)


@cache
def texts_in(code: str) -> Texts:
    """Return the texts in one of `oai.languages.LANGUAGES`."""
    with (FOLDER / f"{code}.toml").open("rb") as file:
        found = tomllib.load(file)
    return Texts(code=code, locale=conventions(code), texts=found)


def chosen(query: Mapping[str, str], accept_language: str) -> Texts:
    """Return the texts in the language that `?lang=` names, otherwise in the browser's."""
    asked = query.get("lang", "")
    return texts_in(asked if asked in LANGUAGES else accepted(accept_language))
