"""Examines how a repository behaves, and writes from it how it is best harvested (WEB-6)."""
