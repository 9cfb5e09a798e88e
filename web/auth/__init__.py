"""Authentication and authorization: sessions, API tokens, rights, sign-in, audit log."""
