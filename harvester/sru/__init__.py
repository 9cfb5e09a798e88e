"""SRU 1.1, 1.2 and 2.0: a client of search services, with the same interface as OAI-PMH."""
