"""A small harvester for tests of the manager; the metadata prefix selects what it does.

It takes the harvester's arguments, writes the history row that a harvester writes, and ends as one does.
"""

import argparse
import os
import select
import signal
import subprocess
import sys
import time

import psycopg
from psycopg.types.json import Jsonb


def connect() -> psycopg.Connection:
    return psycopg.connect(os.environ["ZATVA_DATABASE_URL"].replace("+psycopg", ""))


def write_progress(arguments: argparse.Namespace) -> None:
    """Write the row as after the first page; it shows the test that signals are handled."""
    with connect() as connection:
        connection.execute(
            "INSERT INTO oai_harvest"
            " (repository_id, metadata_prefix, job_id, process_id, run_started, counts, complete_list_size)"
            " VALUES (%s, %s, %s, %s, now() - interval '10 seconds', %s, 400)"
            " ON CONFLICT (repository_id, metadata_prefix, set_spec) DO UPDATE"
            " SET job_id = excluded.job_id, process_id = excluded.process_id",
            [
                arguments.repository_id,
                arguments.metadata_prefix,
                arguments.job_id,
                os.getpid(),
                Jsonb({"pages": 2, "records": 200, "new": 190, "invalid": 10}),
            ],
        )


def write_history(arguments: argparse.Namespace, status: str, verdict: str) -> None:
    with connect() as connection:
        connection.execute(
            "INSERT INTO oai_history (harvest_start_time, repository_id, job_id, recurring_id, status,"
            " verdict, metadata_prefix, set_spec, process_id, evidence)"
            " VALUES (now(), %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                arguments.repository_id,
                arguments.job_id,
                arguments.recurring_id,
                status,
                verdict,
                arguments.metadata_prefix,
                arguments.set_spec,
                os.getpid(),
                Jsonb({"argv": sys.argv[1:], "data": os.environ.get("ZATVA_DATA")}),
            ],
        )


def run_until_stopped(arguments: argparse.Namespace) -> int:
    """As the harvester: on a signal, or when the parent is gone, write history and end."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    write_progress(arguments)
    while not stopped and not select.select([0], [], [], 0.02)[0]:
        pass
    write_history(arguments, "incomplete", "partial")
    return 130


def finish_a_slow_page(arguments: argparse.Namespace) -> int:
    """As the harvester: when it is asked to stop, it finishes its page, here until the job is resumed."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    write_progress(arguments)
    while not stopped and not select.select([0], [], [], 0.02)[0]:
        pass
    with connect() as connection:
        connection.execute("UPDATE oai_harvest SET last_error = 'finishing'")
    with connect() as connection:
        connection.autocommit = True
        while connection.execute("SELECT FROM oai_job WHERE status = 5").fetchone() is not None:
            time.sleep(0.02)
    write_history(arguments, "incomplete", "partial")
    return 130


def be_stubborn(arguments: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write_progress(arguments)
    while not select.select([0], [], [], 0.02)[0]:
        pass
    return 1


def crash(_arguments: argparse.Namespace) -> int:
    sys.stderr.write("first line\nthe disk is full\n")
    return 1


def leave_a_child(arguments: argparse.Namespace) -> int:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    sys.stderr.write(f"child {child.pid}\n")
    return complete(arguments)


def complete(arguments: argparse.Namespace) -> int:
    write_history(arguments, "completed", "complete")
    return 0


def come_back_later(arguments: argparse.Namespace) -> int:
    write_history(arguments, "incomplete", "partial")
    return 75


def fail(arguments: argparse.Namespace) -> int:
    write_history(arguments, "failed", "failed")
    return 4


def be_killed_in_the_import(arguments: argparse.Namespace) -> int:
    write_history(arguments, "completed", "complete")
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def take_a_moment(arguments: argparse.Namespace) -> int:
    time.sleep(0.2)
    return complete(arguments)


CONDUCT = {
    "oai_dc": complete,
    "moment": take_a_moment,
    "long": run_until_stopped,
    "stubborn": be_stubborn,
    "slow_page": finish_a_slow_page,
    "crash": crash,
    "usage": lambda _arguments: 2,
    "later": come_back_later,
    "import": be_killed_in_the_import,
    "fail": fail,
    "child": leave_a_child,
}


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("repository-id", "job-id", "recurring-id", "method", "validation", "files-per-dir"):
        parser.add_argument(f"--{name}", type=int)
    for name in (
        "set-spec",
        "harvest-from",
        "harvest-to",
        "metadata-prefix",
        "filter-file",
        "normalize-file",
        "slice",
    ):
        parser.add_argument(f"--{name}")
    parser.add_argument("--parse-id", action=argparse.BooleanOptionalAction)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--end-with-parent", action="store_true", required=True)
    arguments = parser.parse_args()
    return CONDUCT[arguments.metadata_prefix](arguments)


if __name__ == "__main__":
    sys.exit(main())
