"""The archive's holdings: documents and their sets, and the changes that give them new datestamps."""
