"""The indexing process: `python -m provider ID`, as workers start it."""

import sys

from oai.cli import run
from provider.cli import build_process_parser

if __name__ == "__main__":
    sys.exit(run(build_process_parser()))
