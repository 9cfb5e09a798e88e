"""Leads a session whose terminal is the one on standard input, and runs the named module in its place."""

import fcntl
import os
import runpy
import signal
import sys
import termios

if __name__ == "__main__":
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # Whatever the tests themselves were started under.
    ignored = bool(os.environ.get("TESTS_IGNORE_SIGHUP"))
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    module = sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
