"""Harvested records as bibliographic rows: converted, chosen by filtering sets, imported, searched (BIB)."""
