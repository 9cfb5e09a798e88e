"""The PostgreSQL that all mutants share: `python -m tests.mutation.database FOLDER`.

Starts a server without durability, prints its URL and the name of a migrated database, which tests copy, as
JSON, and stops the server when its input ends.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Final

import psycopg

from oai.embedded import EmbeddedServer, cluster_folder
from tests.conftest import conninfo, create_template, make_careless

_TEMPLATE: Final = "zatva_template_of_mutants"


def serve(folder: Path) -> None:
    """Serve until the input ends."""
    server = EmbeddedServer(folder)
    server.acquire()
    make_careless(server.url)
    with psycopg.connect(conninfo(server.url), autocommit=True) as connection:
        create_template(connection, server.url, _TEMPLATE, folder.with_name("template"))
    url = server.url.render_as_string(hide_password=False)
    sys.stdout.write(json.dumps({"url": url, "template": _TEMPLATE}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.release()
    shutil.rmtree(cluster_folder(folder))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
