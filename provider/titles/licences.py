"""Licences that texts name: Creative Commons, in the spellings that archives use.

A text that is not recognised never becomes a licence.
"""

import re
from dataclasses import dataclass
from typing import Final

_CC: Final = re.compile(
    r"\bCC[ -]?(?P<terms>BY(?:-(?:NC|SA|ND))*)[ -](?P<version>[1-4]\.0)(?:[ -](?P<country>[A-Z]{2})\b)?",
    re.IGNORECASE,
)
_ZERO: Final = re.compile(r"\bCC[ -]?(?:0|ZERO)(?:[ -]1\.0)?(?!\.?[0-9])", re.IGNORECASE)
_URL: Final = re.compile(
    r"creativecommons\.org/(?:licenses/(?P<terms>[a-z-]+)/(?P<version>[1-4]\.0)(?:/(?P<country>[a-z]{2})\b)?"
    r"|publicdomain/zero/(?P<zero>1\.0))",
    re.IGNORECASE,
)
_TERMS: Final = frozenset({"by", "by-sa", "by-nd", "by-nc", "by-nc-sa", "by-nc-nd"})
_KEY: Final = re.compile(
    r"cc-(?P<terms>by(?:-(?:nc|sa|nd))*)-(?P<version>[0-9.]+)(?:-(?P<country>[a-z]{2}))?"
)


@dataclass(frozen=True, kw_only=True)
class Licence:
    """A licence; its key is stored, and is part of its setSpec."""

    key: str
    """For example `cc-by-nc-nd-4.0`, `cc-by-3.0-cz`, `cc0-1.0`."""
    label: str
    """For example `CC BY-NC-ND 4.0`."""
    url: str


_CC0: Final = Licence(
    key="cc0-1.0", label="CC0 1.0", url="https://creativecommons.org/publicdomain/zero/1.0/"
)


def licence_of(text: str) -> Licence | None:
    """Return the licence that a text names by short name or URL; None if there is none, or several."""
    found = {_creative_commons(match) for match in (*_CC.finditer(text), *_URL.finditer(text))}
    found |= {_CC0 for _ in _ZERO.finditer(text)}
    known = found - {None}
    return known.pop() if len(known) == 1 else None


def licence_by_key(key: str) -> Licence | None:
    """Return the licence with this key."""
    if key == _CC0.key:
        return _CC0
    found = _KEY.fullmatch(key)
    return None if found is None else _licence(found["terms"], found["version"], found["country"] or "")


def _creative_commons(match: re.Match[str]) -> Licence | None:
    if "zero" in match.re.groupindex and match["zero"]:
        return _CC0
    terms = match["terms"].lower()
    # Version 1.0 alone is called so by Creative Commons, too.
    if (terms, match["version"]) == ("by-nd-nc", "1.0"):
        terms = "by-nc-nd"
    return _licence(terms, match["version"], (match["country"] or "").lower())


def _licence(terms: str, version: str, country: str) -> Licence | None:
    if terms not in _TERMS:
        return None
    ported = f"-{country}" if country else ""
    label = f"CC {terms.upper()} {version}{f' {country.upper()}' if country else ''}"
    url = f"https://creativecommons.org/licenses/{terms}/{version}/{f'{country}/' if country else ''}"
    return Licence(key=f"cc-{terms}-{version}{ported}", label=label, url=url)
