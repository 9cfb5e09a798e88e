"""Filter and normalisation rules: pages and API."""
