"""Schedules: what is harvested when, and what follows from failures."""
