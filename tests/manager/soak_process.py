"""`python -m tests.manager.soak_process run|run_worker`: a manager or a worker of the soak test."""

import sys
from pathlib import Path

from manager import commands as running
from oai.database import open_database
from oai.logs import configure
from oai.settings import load_settings

_HARVESTER = (sys.executable, str(Path(__file__).with_name("soak_harvester.py")))


def main() -> None:
    settings = load_settings()
    configure(settings.log)
    with open_database(settings) as database:
        running.until_told(getattr(running, sys.argv[1])(settings, database, command=_HARVESTER))


if __name__ == "__main__":
    main()
