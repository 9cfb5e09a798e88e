"""OAI-PMH client and harvest: from a repository's answers to XML files and rows."""
