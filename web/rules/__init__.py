"""Filter and normalise rules, as pages and over the API."""
