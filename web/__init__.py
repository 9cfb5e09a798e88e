"""The dashboard and its REST API."""
