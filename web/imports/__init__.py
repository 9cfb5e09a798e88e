"""The bibliographic import and its records, as pages and over the API."""
