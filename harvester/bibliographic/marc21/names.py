"""Name fields: 100-111, 700-711, 720, and 800-811 of series."""

import re
from dataclasses import replace
from typing import Final

from harvester.bibliographic.marc21.draft import MarcDraft
from harvester.bibliographic.marc21.fields import OpenField
from harvester.bibliographic.marc21.relators import relator, roles
from harvester.bibliographic.punctuation import clean, sentences, unbracketed, unclosed, uniform_title
from harvester.bibliographic.record import Contributor

FAMILY: Final = "3"
NUMERATION: Final = "b"
_NUMERAL: Final = re.compile(r"(?:[IVXLCDM]+|\d{1,3})\b")
_NUMERAL_WITH_TITLE: Final = re.compile(r"([IVXLCDM]+\.?), *(.*\w.*)")
"""A numeral and a title in one subfield: "IV., král"."""
_FORENAME: Final = "0"
_WORK: Final = "fhklmnoprst"
_AUTHORITY: Final = re.compile(r"(?=\w*\d)[A-Za-z]{1,12}\d[\w-]*")
_KINDS: Final = {"00": "person", "10": "corporate", "11": "meeting", "20": "unknown"}


def take_name(found: OpenField, draft: MarcDraft) -> None:
    """Read a main or added entry; a name in another script is added to the name to which it is linked."""
    work = take_work(found)
    name = read_name(found, main=found.tag[0] == "1", work=work)
    place = draft.links_of_names.get((found.tag, found.link)) if found.linked and found.link else None
    if place is not None:
        words = (name.name, name.titles, name.dates, name.work)
        draft.link_name(place, ", ".join(word for word in words if word), name)
        found.take("6")
    elif name.name or name.work:
        if found.link:
            draft.links_of_names[found.tag, found.link] = len(draft.contributors)
            found.take("6")
        draft.contributors.append(name)
    else:
        parts = (name.titles, name.dates, *name.roles, *name.authority_ids, found.take_rest())
        draft.broken(found.written, " ".join(filter(None, parts)), "a name without subfield a")


def take_work(found: OpenField) -> str:
    """Take the title in a name field (subfield t and those after it), if the field names a work."""
    if "t" not in found.codes:
        return ""
    begin = next(place for place, one in enumerate(found.left) if one.code == "t")
    codes = _WORK if found.tag[1:] != "11" else "fhklpst"
    named, titled = found.left[:begin], found.left[begin:]
    part = replace(found, left=titled, codes=set(found.codes))
    work = uniform_title(part.take(codes))
    found.left = [*named, *part.left]
    return work


def read_name(found: OpenField, *, main: bool, work: str = "") -> Contributor:
    """Return the name in a field X00, X10, X11 or 720."""
    kind = _KINDS.get(found.tag[1:], "unknown")
    if kind == "person" and found.indicators[0] == FAMILY:
        kind = "family"
    read = _read_body if kind in {"corporate", "meeting"} else _read_person
    name, titles = read(found, kind)
    return Contributor(
        name=name,
        kind=kind,
        dates=", ".join(unbracketed(unclosed(clean(value))) for value in found.take("d")),
        titles=titles,
        roles=_roles(found, kind),
        authority_ids=authority_ids(found),
        work=work,
        main=main,
    )


def authority_ids(found: OpenField) -> tuple[str, ...]:
    """Take the control numbers and addresses in subfields 0, 1 and (as in Czech libraries) 7."""
    ids = [value.replace(" ", "") for value in found.take("01")]
    if found.tag[1:] != "20" and _AUTHORITY.fullmatch(found.raw("7").strip()):
        ids.append(found.first("7"))
    return tuple(dict.fromkeys(ids))


def _read_person(found: OpenField, _kind: str) -> tuple[str, str]:
    names = [clean(value) for value in found.take("a")]
    titles: list[str] = []
    for code, value in found.pairs("bc"):
        both = _NUMERAL_WITH_TITLE.fullmatch(value) if code == NUMERATION and names else None
        if both:
            names.append(both[1])
            titles.append(clean(both[2]))
            continue
        into = names if names and is_numeration(found, code, value) else titles
        into.append(clean(value, stop=code != NUMERATION))
    fuller = [clean(value).strip("()") for value in found.take("q")]
    return " ".join(names), ", ".join([*titles, *fuller])


def is_numeration(found: OpenField, code: str, value: str) -> bool:
    """Return whether a subfield of a person's name is a part of the forename: "IV." of "Karel IV."."""
    forename = found.indicators[0] == _FORENAME
    return code == NUMERATION and (forename or _NUMERAL.match(value) is not None)


def _read_body(found: OpenField, kind: str) -> tuple[str, str]:
    parts = "ab" if kind == "corporate" else "aeq"
    name = sentences(clean(value) for value in found.take(parts))
    return name, " : ".join(clean(value).strip("()") for value in found.take("nc"))


def _roles(found: OpenField, kind: str) -> tuple[str, ...]:
    codes = [relator(value) for value in found.take("4")]
    words = [role for value in found.take("j" if kind == "meeting" else "e") for role in roles(value)]
    return tuple(dict.fromkeys(role for role in (*codes, *words) if role))
