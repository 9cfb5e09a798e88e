"""OAI-PMH without HTTP: from raw arguments to the finished answer."""
