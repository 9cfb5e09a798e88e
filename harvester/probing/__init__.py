"""Repositories tried out: a look, one question, a sample, diagnostics."""
