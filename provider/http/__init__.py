"""The provider over HTTP: routes, load control, and who asks."""
