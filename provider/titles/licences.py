"""Licences that texts name: Creative Commons, in the spellings that archives use.

A text that is not recognised never becomes a licence.
"""

import re
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(
    r"(?P<title>[^(),;]*\b[0-9]\.[0-9]\b[^(),;]*\()?(?:Creative Commons )?"
    r"CC[ -]?(?:BY(?P<terms>(?:-(?:NC|SA|ND))*)[ -](?P<version>[0-9.]+)(?:[ -](?P<country>[A-Z]+))?"
    r"|(?:0|ZERO)(?:[ -]1\.0(?: Universal)?)?)(?(title)\))",
    re.IGNORECASE,
)
"""A short name, or one in parentheses after a title: `Attribution 4.0 International (CC BY 4.0)`."""
_URL: Final = re.compile(
    r"(?:https?://)?(?:www\.)?creativecommons\.org/(?:licenses/by(?P<terms>(?:-(?:nc|sa|nd))*)/"
    r"(?P<version>[0-9.]+)(?:/(?P<country>(?!deed|legalcode)[a-z]+))?|publicdomain/zero/1\.0)"
    r"(?:/(?:(?:deed|legalcode)[\w.-]*)?)?[)>]?",
    re.IGNORECASE,
)
_BETWEEN: Final = re.compile(r"[,;]\s+|[\s(<]+(?=https?://)")
"""Between several names of one licence."""
_TERMS: Final = frozenset({"by", "by-sa", "by-nd", "by-nc", "by-nc-sa", "by-nc-nd"})
_UNPORTED: Final = {
    "1.0": "generic",
    "2.0": "generic",
    "2.5": "generic",
    "3.0": "unported",
    "4.0": "international",
}
"""What Creative Commons calls each version without a country."""
_PORTED: Final = {
    "1.0": "fi il nl",
    "2.0": "at au be br ca cl de es fr hr it jp kr nl pl tw uk za",
    "2.1": "au ca es jp",
    "2.5": "ar au bg br ca ch cn co dk es hr hu il in it mk mt mx my nl pe pl pt scotland se si tw za",
    "3.0": "am at au az br ca ch cl cn cr cz de ec ee eg es fr ge gr gt hk hr ie igo it lu nl no nz ph pl pr "
    "pt ro rs sg th tw ua ug us ve vn za",
}
"""Countries for which Creative Commons has published each version; `igo`: intergovernmental organisations."""
_KEY: Final = re.compile(r"cc-(?P<terms>by(?:-(?:nc|sa|nd))*)-(?P<version>[0-9.]+)(?:-(?P<country>[a-z]+))?")


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
    """Return the licence of which a text is the short name, the URL, or both; None for any other text."""
    parts = _BETWEEN.split(text.strip(" ."))
    found = {_named(part) for part in parts}
    return found.pop() if len(found) == 1 else None


def licence_by_key(key: str) -> Licence | None:
    """Return the licence with this key."""
    if key == _CC0.key:
        return _CC0
    found = _KEY.fullmatch(key)
    return None if found is None else _licence(found["terms"], found["version"], found["country"] or "")


def _named(text: str) -> Licence | None:
    found = _NAME.fullmatch(text) or _URL.fullmatch(text)
    if found is None:
        return None
    if found["version"] is None:
        return _CC0
    terms, version = f"by{found['terms'].lower()}", found["version"]
    # Version 1.0 alone is called so by Creative Commons, too.
    if (terms, version) == ("by-nd-nc", "1.0"):
        terms = "by-nc-nd"
    country = (found["country"] or "").lower()
    return _licence(terms, version, "" if country == _UNPORTED.get(version) else country)


def _licence(terms: str, version: str, country: str) -> Licence | None:
    published = country in _PORTED.get(version, "").split() if country else version in _UNPORTED
    if terms not in _TERMS or not published:
        return None
    ported = f"-{country}" if country else ""
    label = f"CC {terms.upper()} {version}{f' {country.upper()}' if country else ''}"
    url = f"https://creativecommons.org/licenses/{terms}/{version}/{f'{country}/' if country else ''}"
    return Licence(key=f"cc-{terms}-{version}{ported}", label=label, url=url)
