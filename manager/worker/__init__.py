"""A worker: takes harvests from the queue, supervises their processes, and settles their results."""
