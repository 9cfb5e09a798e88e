"""One harvest: from its request to stored files, rows and a verdict."""
