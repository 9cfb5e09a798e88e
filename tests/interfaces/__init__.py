"""Public interfaces on which other programs, scripts and databases rely, frozen as files; see `surfaces`."""
