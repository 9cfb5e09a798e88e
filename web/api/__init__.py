"""The REST API: one declaration for each operation, from which routes, checks and the document come."""
