"""Audits of stores, as pages and over the API."""
