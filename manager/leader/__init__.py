"""The leading manager: its lock, its loop, and its duties at each tick."""
