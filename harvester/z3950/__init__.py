"""Z39.50 through `yaz-client`: a client of library catalogues, with the same interface as OAI-PMH."""
