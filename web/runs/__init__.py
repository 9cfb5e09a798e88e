"""Runs that have ended, as pages and over the API."""
