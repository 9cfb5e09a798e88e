"""Archive files become documents."""
