"""The soak test's harvester: the real one, or a small one that notices when it is not alone.

Which of them it is says the metadata prefix: `alone` is the small one, which takes a lock of its repository,
writes the history row and ends. All others are harvested by the harvester itself.
"""

import os
import sys
import time

_LOCK = 0x50_61_6B


def option(name: str) -> str | None:
    given = [word.partition("=")[2] for word in sys.argv if word.startswith(f"--{name}=")]
    return given[0] if given else None


def main() -> int:
    if option("metadata-prefix") != "alone":
        os.execv(sys.executable, [sys.executable, "-m", "harvester", *sys.argv[1:]])  # noqa: S606 our own words
    import psycopg  # noqa: PLC0415 the harvester itself needs none of it

    with psycopg.connect(os.environ["ZATVA_DATABASE_URL"].replace("+psycopg", "")) as connection:
        row = connection.execute(
            "SELECT pg_try_advisory_lock(%s, %s)", [_LOCK, option("repository-id")]
        ).fetchone()
        time.sleep(0.02)
        connection.execute(
            "INSERT INTO oai_history (harvest_start_time, repository_id, job_id, recurring_id, status,"
            " verdict, metadata_prefix, process_id) VALUES (now(), %s, %s, %s, %s, 'complete', 'alone', %s)",
            [
                option("repository-id"), option("job-id"), option("recurring-id"),
                "completed" if row and row[0] else "not alone", os.getpid(),
            ],
        )  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
