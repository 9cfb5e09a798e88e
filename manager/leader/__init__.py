"""The leading manager: its lock, its loop, and what it does at each tick."""
