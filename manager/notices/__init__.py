"""Notifications about harvests: who receives which, and delivery by mail, to web addresses and to hooks."""
