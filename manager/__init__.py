"""Recurring jobs become jobs, jobs become running harvests, and ended harvests become history rows."""
