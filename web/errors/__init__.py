"""Unreadable records: pages and API."""
