"""Harvested records as a second repository: published from the harvester's tables, and given out again."""
