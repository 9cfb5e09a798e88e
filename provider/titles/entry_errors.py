"""What is wrong with a value of a title that a source gives, as translatable text."""

from typing import Final

from pydantic_core import ErrorDetails

from oai.errors import Phrase, UsageError

SHOWN: Final = 100
"""The characters of a value that a message shows."""


class EntryError(UsageError, ValueError):
    """A value of an entry cannot be read; Pydantic takes it as an error of that value."""


_WORDS: Final = {
    "bool_": Phrase("%(value)s is not understood; write true or false"),
    "date_": Phrase("%(value)s is not understood; write a date, such as 2025-12-31"),
    "int_": Phrase("%(value)s is not understood; write a whole number"),
    "string_type": Phrase("%(value)s is not understood; write a text"),
    "tuple_type": Phrase("%(value)s is not understood; write a list"),
    "model_": Phrase("%(value)s is not understood; write an object"),
    "literal_error": Phrase("%(value)s is not understood; write one of %(expected)s"),
    "enum": Phrase("%(value)s is not understood; write one of %(expected)s"),
    "missing": Phrase("the value is missing"),
    "extra_forbidden": Phrase("there is no such field"),
    "string_too_short": Phrase("the value is empty"),
    "string_too_long": Phrase("longer than %(max_length)s characters"),
    "too_long": Phrase("more than %(max_length)s values"),
}
"""What is wrong with a value, by the beginning of Pydantic's kind of error."""


def reason_of(found: ErrorDetails) -> str | EntryError:
    """Return what is wrong with a value; in Pydantic's words, which are English, if its kind is unknown."""
    facts = found.get("ctx", {})
    error = facts.get("error")
    if isinstance(error, EntryError):
        return error
    words = next((words for kind, words in _WORDS.items() if found["type"].startswith(kind)), None)
    if words is None:
        return found["msg"]
    expected = str(facts.get("expected", "")).replace(" or ", ", ")
    return Phrase(words, **{**facts, "value": repr(str(found["input"])[:SHOWN]), "expected": expected})
