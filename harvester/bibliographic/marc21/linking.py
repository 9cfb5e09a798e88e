"""Fields that lead elsewhere: linking entries 760-787, and addresses (856)."""

import re
from typing import Final

from harvester.bibliographic.marc21.draft import Draft
from harvester.bibliographic.marc21.reading import OpenField
from harvester.bibliographic.punctuation import clean
from harvester.bibliographic.record import Link, Related

_RELATIONS: Final = {
    "760": "series", "762": "subseries", "765": "original", "767": "translation", "770": "supplement",
    "772": "main work", "773": "host", "774": "part", "775": "other edition", "776": "other form",
    "777": "issued with", "780": "preceding", "785": "succeeding", "786": "data source", "787": "related",
}  # fmt: skip
_LINKS: Final = {"0": "resource", "1": "version", "2": "related"}
_ADDRESS: Final = re.compile(r"(?i)^(?:https?|ftp)://[^\s/]")


def take_related(found: OpenField, draft: Draft) -> None:
    """Take a linking entry."""
    related = Related(
        relation=_RELATIONS[found.tag],
        title=". ".join(clean(value, stop=True) for value in found.take("stp")),
        author=", ".join(clean(value) for value in found.take("a")),
        part=", ".join(clean(value) for value in found.take("gq")),
        publication=" ; ".join(clean(value) for value in found.take("bdh")),
        identifiers=tuple(found.take("oruwxyz")),
        label=" ".join(clean(value).rstrip(":") for value in found.take("i")),
    )
    if related != Related(relation=related.relation):
        draft.related.append(related)


def take_link(found: OpenField, draft: Draft) -> None:
    """Take field 856; what is no address of the web is told."""
    relation = _LINKS.get(found.indicators[1], "other" if found.indicators[1] != " " else "resource")
    label = " ".join(found.take("3yz"))
    urls = found.take("u")
    for url in urls:
        draft.links.append(Link(url=url, label=label, relation=relation))
        if not _ADDRESS.match(url):
            draft.broken("856", url, "this is not an http or ftp address")
    if not urls and label:
        draft.keep("856", label)
