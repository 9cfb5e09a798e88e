"""The dashboard's words: every text that people read goes through `_`, in templates and here alike.

English is the source language; a request's own language will be set in `translations`.
"""

from contextvars import ContextVar
from gettext import NullTranslations

translations: ContextVar[NullTranslations] = ContextVar("translations", default=NullTranslations())  # noqa: B039 never changed


def _(message: str) -> str:
    """The message in the request's language."""
    return translations.get().gettext(message)


def ngettext(singular: str, plural: str, count: int) -> str:
    """The message for that many, in the request's language."""
    return translations.get().ngettext(singular, plural, count)
