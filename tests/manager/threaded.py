"""A module that starts a thread when it is imported, so that its process cannot be forked."""

import threading

threading.Thread(target=threading.Event().wait, daemon=True).start()
