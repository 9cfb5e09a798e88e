"""Running one harvest, from its request to stored files, database rows and a verdict."""
