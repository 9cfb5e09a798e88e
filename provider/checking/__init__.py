"""A black-box checker for any OAI-PMH 2.0 provider: it asks as a harvester would, and knows nothing else."""
