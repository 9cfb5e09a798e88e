"""A worker: takes harvests from the queue, supervises their processes, settles their ends."""
