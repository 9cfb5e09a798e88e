"""Schedules: pages and API."""
