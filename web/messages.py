"""Reads catalogues of messages as they are edited (gettext's PO format), so that nothing needs compiling.

Of the format what Babel writes: comments, `msgid`, `msgid_plural`, `msgstr`, `msgstr[n]`, strings over
several lines. Messages marked fuzzy, and those without a translation, are left out.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from gettext import NullTranslations, c2py
from typing import Final

_KEYWORD: Final = re.compile(r'(msgid_plural|msgid|msgstr)(?:\[(\d+)\])?\s+(".*")$')
_PLURALS: Final = re.compile(r"^Plural-Forms:.*\bplural=([^;\n]+)", re.MULTILINE)
_FUZZY: Final = "#, "


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message and its translations: one, or one for each form of the plural."""

    source: str
    plural: str | None
    translations: tuple[str, ...]
    fuzzy: bool

    @property
    def is_complete(self) -> bool:
        """Whether there is a translation of each form, and a person has looked at it."""
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
        # A string of the format is one of Python's, too.
        self.parts[self.key] = self.parts.get(self.key, "") + ast.literal_eval(text)

    def message(self) -> Message:
        return Message(
            source=self.parts.get("msgid", ""),
            plural=self.parts.get("msgid_plural"),
            translations=tuple(text for key, text in sorted(self.parts.items()) if key.startswith("msgstr")),
            fuzzy=self.fuzzy,
        )


class Catalogue(NullTranslations):
    """The messages of one language, for gettext's calls; what is missing is as it was."""

    def __init__(self, messages: list[Message]) -> None:
        super().__init__()
        self._texts = {message.source: message.translations for message in messages if message.is_complete}
        self._form = c2py(_plural_forms(messages))

    def gettext(self, message: str) -> str:
        """The message in this language."""
        found = self._texts.get(message) if message else None
        return found[0] if found else message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """The message in the form for that many."""
        found = self._texts.get(msgid1)
        if not found:
            return msgid1 if n == 1 else msgid2
        return found[min(self._form(n), len(found) - 1)]


def read_catalogue(text: str) -> list[Message]:
    """Every message of a catalogue; the first one, with an empty source, is its header.

    Raises ValueError for a line that is none of the format's.
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
