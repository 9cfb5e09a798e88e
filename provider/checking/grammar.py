"""Validates an answer against the form that the protocol's schema prescribes."""

from functools import cache
from importlib.resources import files
from typing import Final

from lxml import etree

GRAMMAR: Final = "oai_pmh.rng"
"""RELAX NG, beside this module: like OAI-PMH.xsd, with the choices that the specification's text adds."""


def complaint(root: etree._Element) -> str | None:
    """Return the first violation in an answer, with its line; None if it is valid."""
    grammar = _grammar()
    if grammar.validate(root):
        return None
    first = grammar.error_log[0]
    return f"line {first.line}: {first.message}"


@cache
def _grammar() -> etree.RelaxNG:
    text = files(__package__).joinpath(GRAMMAR).read_bytes()
    return etree.RelaxNG(etree.fromstring(text))
