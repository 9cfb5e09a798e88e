"""Indexing: turns archive files into documents."""
