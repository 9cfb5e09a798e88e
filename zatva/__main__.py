"""The program `zatva`; `python -m zatva` runs it, too."""

import signal
import sys


def main() -> int:
    """Run the command line and return the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until `oai.cli.run` handles interrupts, they end the process without the traceback of an import.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from zatva.cli import main as run  # noqa: PLC0415 it takes most of the time until then

    return run()


if __name__ == "__main__":
    sys.exit(main())
