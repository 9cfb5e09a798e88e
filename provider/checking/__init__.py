"""A black-box checker for any OAI-PMH 2.0 provider: it sends requests as a harvester does."""
