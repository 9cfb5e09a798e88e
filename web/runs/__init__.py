"""Finished runs: pages and API."""
