"""Zatva: the command that combines all parts."""

__version__ = "0.1.0"
