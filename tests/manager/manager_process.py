"""A manager or a worker as a process with the stand-in harvester; its settings are in the environment."""

import asyncio
import sys

from manager.commands import run, run_until_signal, serve_worker
from oai.database import open_database
from oai.logs import configure
from oai.settings import load_settings
from tests.manager.forked import STAND_IN, fork_from_here


def main() -> None:
    fork_from_here()
    settings = load_settings()
    configure(settings.log)
    drain = asyncio.Event()
    with open_database(settings) as database:
        work = serve_worker if sys.argv[1:] == ["worker"] else run
        run_until_signal(work(settings, database, command=STAND_IN, drain=drain), drain=drain)


if __name__ == "__main__":
    main()
