"""Current jobs, as pages and over the API."""
