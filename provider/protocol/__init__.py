"""OAI-PMH: from raw arguments to the finished answer, without HTTP."""
