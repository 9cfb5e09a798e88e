"""The harvest process: `python -m harvester --repository-id N …`."""

import sys

from harvester.cli.harvest_parser import build_process_parser
from oai.cli import run

if __name__ == "__main__":
    sys.exit(run(build_process_parser()))
