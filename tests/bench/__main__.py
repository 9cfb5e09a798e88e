"""`python -m tests.bench NAME`: run one benchmark."""

import argparse
import sys

from tests.bench import whole_way

_BENCHMARKS = {"whole-way": whole_way.measure}


def main() -> int:
    """Run the benchmark that is named."""
    parser = argparse.ArgumentParser(prog="script/bench", description="Measure Zatva on this machine.")
    parser.add_argument("name", choices=_BENCHMARKS)
    parser.add_argument("--documents", type=int, default=200_000, help="documents in the archive")
    arguments = parser.parse_args()
    _BENCHMARKS[arguments.name](documents=arguments.documents)
    return 0


if __name__ == "__main__":
    sys.exit(main())
