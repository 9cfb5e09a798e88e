"""Jobs and runs as people see and control them."""
