"""The REST API: each operation is declared once; routes, checks and the OpenAPI document derive from it."""
