"""The dashboard's words: every text that people read goes through `_`, in templates and here alike.

English is the source language; `web.languages` sets a request's own in `translations`. `mark` is for texts
that stand in a table before there is a request: it only lets the extraction see them.
"""

from contextvars import ContextVar
from gettext import NullTranslations

from oai.errors import ZatvaError

translations: ContextVar[NullTranslations] = ContextVar("translations", default=NullTranslations())  # noqa: B039 never changed
language: ContextVar[str] = ContextVar("language", default="en")
"""The code of the language that pages are in."""


def _(message: str) -> str:
    """The message in the request's language."""
    return translations.get().gettext(message)


def ngettext(singular: str, plural: str, count: int) -> str:
    """The message for that many, in the request's language."""
    return translations.get().ngettext(singular, plural, count)


def told(error: Exception) -> str:
    """What an error says, in the request's language where it is one of ours."""
    return error.in_words(_) if isinstance(error, ZatvaError) else str(error)


def mark(message: str) -> str:
    """The message itself; it is translated where it is shown."""
    return message
