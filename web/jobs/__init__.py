"""Current jobs: pages and API."""
