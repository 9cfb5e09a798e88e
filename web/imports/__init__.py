"""The bibliographic import and its records: pages and API."""
