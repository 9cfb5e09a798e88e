"""The archive, as pages and over the API."""
