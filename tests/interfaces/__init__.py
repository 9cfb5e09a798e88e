"""What other programs, scripts and databases hold us to, frozen as files; see `surfaces`."""
