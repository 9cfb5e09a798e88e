"""Derives the identifier of a record from the path of its file, as documented."""

import re
from urllib.parse import unquote

_STARTING_AT = re.compile(r"starting_at_[0-9]+")
_TWIN = re.compile(r"~[0-9]+$")


def identifier_of(path: str, *, parse_id: bool = True) -> str | None:
    """Return the identifier of the record at the path; None if a digest names the file."""
    *folders, name = path.removeprefix("++deleted/").split("/")
    name = _TWIN.sub("", name.removesuffix(".xml").partition("@")[0])
    if folders and _STARTING_AT.fullmatch(folders[-1]):
        folders.pop()
    if (folders or [name])[0].startswith("++sha256"):
        return None
    if not parse_id:
        return _decoded(name)
    first, *rest = [*folders, name]
    joined = first.removeprefix("+")
    for part in rest:
        if part.startswith("+"):
            joined = joined.removesuffix("+") + part.removeprefix("+")
        else:
            joined += "/" + part
    text = ":".join(_decoded(part) for part in joined.split("/"))
    return text if first.startswith("+") else "oai:" + text


def _decoded(part: str) -> str:
    return unquote("" if part == "%" else part, errors="strict")
