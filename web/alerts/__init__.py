"""Alerts and notification rules, as pages and over the API."""
