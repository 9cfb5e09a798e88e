"""The archive: pages and API."""
