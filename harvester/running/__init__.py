"""One harvest from its first request to its verdict."""
