"""Makes the terminal on standard input this session's own, and becomes the module that is named."""

import fcntl
import os
import signal
import sys
import termios

if __name__ == "__main__":
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # Whatever the tests themselves were started under.
    ignored = bool(os.environ.get("TESTS_IGNORE_SIGHUP"))
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[1:]])  # noqa: S606 our own words
