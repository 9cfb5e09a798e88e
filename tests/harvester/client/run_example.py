"""Runs a Python file as `python FILE` does: `python -m tests.harvester.client.run_example FILE`."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_path(sys.argv[1], run_name="__main__")
