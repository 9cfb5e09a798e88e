"""A worker as a process with the stand-in harvester; its settings are in the environment."""

from manager.commands import run_until_signal, serve_worker
from oai.database import open_database
from oai.logs import configure
from oai.settings import load_settings
from tests.manager.forked import STAND_IN, fork_from_here


def main() -> None:
    fork_from_here()
    settings = load_settings()
    configure(settings.log)
    with open_database(settings) as database:
        run_until_signal(serve_worker(settings, database, command=STAND_IN))


if __name__ == "__main__":
    main()
