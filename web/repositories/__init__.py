"""Repositories: added, explored, diagnosed, as pages and over the API."""
