"""Jobs and runs as users see and control them."""
