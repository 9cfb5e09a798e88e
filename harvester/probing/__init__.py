"""Inspection of repositories: a look, a single request, a sample, and diagnostics."""
