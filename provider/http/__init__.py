"""The provider over HTTP: routes, load control, and client statistics."""
