"""Who asks, and what they may: sessions, tokens, rights, sign-in, the audit log."""
