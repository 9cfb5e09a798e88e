"""Who is told what about harvests, and how it is sent: by mail, to web addresses, to hooks."""
