"""The kernel that both sides share: protocol words, datestamps, errors, XML, settings, database."""
