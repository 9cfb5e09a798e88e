"""A repository's bytes, read into typed answers or errors; no input or output, and quick to import."""
