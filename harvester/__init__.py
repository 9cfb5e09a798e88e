"""OAI-PMH client and harvester: from a repository's answers to XML files and database rows."""
