"""Schedules, as pages and over the API."""
