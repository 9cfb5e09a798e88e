"""Whether an answer has the form that the protocol's schema prescribes."""

from functools import cache
from importlib.resources import files
from typing import Final

from lxml import etree

GRAMMAR: Final = "oai_pmh.rng"
"""RELAX NG, beside this module: as OAI-PMH.xsd, with a choice of what the specification's text adds."""


def complaint(root: etree._Element) -> str | None:
    """What is wrong with the form of an answer, with its line; None where nothing is."""
    grammar = _grammar()
    if grammar.validate(root):
        return None
    first = grammar.error_log[0]
    return f"line {first.line}: {first.message}"


@cache
def _grammar() -> etree.RelaxNG:
    text = files(__package__).joinpath(GRAMMAR).read_bytes()
    return etree.RelaxNG(etree.fromstring(text))
