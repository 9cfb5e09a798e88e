"""Fields of subjects and genres: 600-662, 690-699, and the classes in 050, 072, 080 and 082."""

from typing import Final

from harvester.bibliographic.marc21.draft import Draft
from harvester.bibliographic.marc21.names import authority_ids
from harvester.bibliographic.marc21.reading import OpenField
from harvester.bibliographic.punctuation import clean
from harvester.bibliographic.record import Subject

_KINDS: Final = {
    "600": "person", "610": "corporate", "611": "meeting", "630": "title", "647": "event",
    "648": "chronology", "650": "topic", "651": "place", "653": "keyword", "654": "topic", "655": "genre",
    "656": "occupation", "657": "function", "658": "curriculum", "659": "category", "662": "place",
}  # fmt: skip
_SOURCES: Final = {"0": "lcsh", "1": "lcshac", "2": "mesh", "3": "nal", "5": "cash", "6": "rvm"}
_SUBDIVISIONS: Final = "vxyz"
_NO_WORDS: Final = "012345678w"
_CLASSES: Final = {"050": "lcc", "072": "", "080": "udc", "082": "ddc", "084": ""}
_KEYWORDS: Final = {"653", "659"}


def take_subject(found: OpenField, draft: Draft) -> None:
    """Take a subject, or a genre (655); names and titles in it are written as one text."""
    source = found.first("2").rstrip(".")
    if not source and found.tag not in _KEYWORDS:
        source = _SOURCES.get(found.indicators[1], "")
    kind = _KINDS.get(found.tag, "local")
    ids = authority_ids(found)
    texts = [clean(value) for value in found.take("a")] if found.tag in _KEYWORDS else [_text(found)]
    subjects = [Subject(text=text, kind=kind, source=source, authority_ids=ids) for text in texts if text]
    (draft.genres if kind == "genre" else draft.subjects).extend(subjects)
    if not subjects:
        rest = " ".join((found.rest(), source, *ids)).strip()
        draft.broken(found.written, rest, "a subject without a heading")


def take_class(found: OpenField, draft: Draft) -> None:
    """Take a class of a classification; field 072 has its words, too."""
    source = found.first("2") or _CLASSES[found.tag]
    words = [clean(value) for value in found.take("x")] if found.tag == "072" else []
    items = [clean(value) for value in found.take("a")]
    kind = "category" if found.tag == "072" else "class"
    for place, item in enumerate(items):
        text = " -- ".join([item, *words] if place == 0 else [item])
        draft.subjects.append(Subject(text=text, kind=kind, source=source))
    if not items:
        draft.broken(found.written, " ".join([*words, source]).strip(), "a class without a number")


def _text(found: OpenField) -> str:
    """The heading, and its subdivisions after ` -- `."""
    codes = "".join(dict.fromkeys(one.code for one in found.left if one.code not in _NO_WORDS))
    name = ""
    divisions: list[str] = []
    for code, value in found.pairs(codes):
        if code in _SUBDIVISIONS:
            divisions.append(clean(value, stop=True))
        else:
            sign = ". " if code in "tnp" else ", "
            name = f"{name}{sign if name else ''}{clean(value, stop=code == 'a' and found.tag == '650')}"
    return " -- ".join(part for part in (name, *divisions) if part)
