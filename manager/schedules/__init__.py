"""Schedules: what is harvested when, and the consequences of failures."""
