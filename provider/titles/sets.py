"""The sets of a title, from its subjects, collections, licence and publisher."""

import re
from collections.abc import Iterator
from typing import Final

from oai.folding import normalised
from provider.protocol.catalogue import SetRow
from provider.titles.licences import licence_by_key
from provider.titles.models import Title

_TREES: Final = {
    "subject": "Subjects",
    "collection": "Collections",
    "licence": "Licences",
    "publisher": "Publishers",
}
_OTHER: Final = re.compile(r"[^a-z0-9.]+")
_LONGEST: Final = 100


def sets_of(title: Title) -> list[SetRow]:
    """Return the sets of a stored title's description, parents before children."""
    found = {}
    for tree, name, words in _named(title):
        part = set_part(words)
        if part:
            found[tree] = SetRow(set_spec=tree, name=_TREES[tree])
            found[f"{tree}:{part}"] = SetRow(set_spec=f"{tree}:{part}", name=name)
    return list(found.values())


def collection_spec(name: str) -> str:
    """Return the setSpec of a collection; empty if nothing of its name can be in one."""
    part = set_part(name)
    return f"collection:{part}" if part else ""


def _named(title: Title) -> Iterator[tuple[str, str, str]]:
    """Yield the tree, the name of a set, and what its setSpec is made of."""
    for subject in title.subjects:
        yield "subject", subject["name"], str(subject.get("number", subject["name"]))
    for collection in title.collections:
        yield "collection", collection, collection
    known = licence_by_key(title.licence) if title.licence else None
    if known is not None:
        yield "licence", known.label, known.key
    if title.publisher:
        yield "publisher", title.publisher, title.publisher


def set_part(words: str) -> str:
    """Return words as part of a setSpec (OAI-PMH 2.0, section 2.6): ASCII letters, digits, `.` and `-`."""
    plain = normalised("NFKD", words).encode("ascii", "ignore").decode().lower()
    return _OTHER.sub("-", plain).strip("-.")[:_LONGEST]
