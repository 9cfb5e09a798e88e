"""The process that prepares a file for download: `python -m provider.export ID`, as workers start it."""

import argparse
import sys

from oai.cli import add_shared_options, run


def build_parser() -> argparse.ArgumentParser:
    """Return the command line of the process."""
    parser = argparse.ArgumentParser(
        prog="python -m provider.export", description="Prepare one file for download."
    )
    add_shared_options(parser)
    parser.add_argument("export_id", type=int, metavar="ID", help="row in prepared_export")
    parser.set_defaults(handler="provider.export.preparation:prepare_queued")
    return parser


if __name__ == "__main__":
    sys.exit(run(build_parser()))
