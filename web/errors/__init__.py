"""Records that could not be read, as pages and over the API."""
