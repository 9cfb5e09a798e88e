"""Zatva: the command that joins the parts."""

__version__ = "0.1.0"
