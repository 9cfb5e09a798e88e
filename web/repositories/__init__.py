"""Repositories: add, explore, diagnose; pages and API."""
