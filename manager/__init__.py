"""Recurring jobs become jobs, jobs become running harvests, and those become history."""
