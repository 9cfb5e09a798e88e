"""Users, organisations, tokens, the audit log: pages, API and commands."""
