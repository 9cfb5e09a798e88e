"""A process for tests: `python -m tests.manager.preforked CODE|wait|about`."""

import os
import resource
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    what = sys.argv[1]
    if what == "about":
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        # The last one reads the list.
        inherited = sorted(int(file.name) for file in Path("/proc/self/fd").iterdir())[:-1]
        interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        sys.stderr.write(f"{os.environ.get('NAME')} {Path.cwd()} {inherited} {limit} {interruptible}")
        sys.exit(os.getpgid(0) != os.getpid())
    if what == "wait":
        sys.stdin.read()
    sys.exit(int(what) if what.isdigit() else 0)
