"""Where harvested records are kept: a file for each, and their rows."""
