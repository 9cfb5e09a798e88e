"""The audit process: `python -m harvester.store ID`, as workers start it."""

import argparse
import sys

from oai.cli import add_shared_options, run


def build_parser() -> argparse.ArgumentParser:
    """Return the command line of the audit process."""
    parser = argparse.ArgumentParser(
        prog="python -m harvester.store", description="Audit the store of one repository."
    )
    add_shared_options(parser)
    parser.add_argument("audit_id", type=int, metavar="ID", help="row in oai_store_audit")
    parser.set_defaults(handler="harvester.cli.store:audit_queued", repair=False)
    return parser


if __name__ == "__main__":
    sys.exit(run(build_parser()))
