"""The two kinds of rule files."""

from enum import StrEnum


class RuleKind(StrEnum):
    """What a rule file does with a record."""

    FILTER = "filter"
    """Keeps it or leaves it out."""
    NORMALISE = "normalise"
    """Adds elements beside the original ones."""
