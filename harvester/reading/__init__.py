"""Parses a repository's bytes into typed answers or errors; no input or output, and quick to import."""
