"""Harvested records as a second repository: published from the harvester's tables and served over OAI-PMH."""
