"""OAI-PMH data provider over a web archive, and the indexer that fills it."""
