"""`python -m tests.bench NAME`: run one benchmark."""

import argparse
import sys
from pathlib import Path

from tests.bench import (
    bibliographic,
    growth,
    harvest,
    large_answers,
    large_archive,
    large_store,
    manager,
    paging_models,
    provider,
    titles,
    web,
    whole_way,
)


def main() -> int:
    """Run the benchmark named on the command line."""
    parser = argparse.ArgumentParser(prog="script/bench", description="Measure Zatva on this machine.")
    benchmarks = parser.add_subparsers(dest="name", required=True)
    way = benchmarks.add_parser("whole-way", help="index, serve and harvest an archive")
    way.add_argument("--documents", type=int, default=200_000, help="documents in the archive")
    way.set_defaults(measure=whole_way.measure)
    side = benchmarks.add_parser("provider", help="the provider at size, against its targets")
    side.add_argument("--documents", type=int, default=5_000_000, help="documents in the tables")
    side.add_argument("--seconds", type=float, default=60, help="how long the many clients ask")
    side.add_argument("--indexed", type=int, default=200_000, help="documents indexed from archive files")
    side.set_defaults(measure=provider.measure)
    other = benchmarks.add_parser("harvest", help="the harvester, against a plain loop and other clients")
    other.add_argument("--records", type=int, default=100_000, help="records in the repository")
    other.add_argument(
        "--others", type=Path, help="Python of an environment with sickle and oaiharvest from PyPI"
    )
    other.add_argument(
        "--policy", choices=("no", "transient", "persistent"), default="persistent", help="its deletedRecord"
    )
    other.set_defaults(measure=harvest.measure)
    large = benchmarks.add_parser("large", help="large and hostile answers: time and memory")
    large.add_argument("--records", type=int, default=200_000, help="records in the honest one")
    large.set_defaults(measure=large_answers.measure)
    catalogue = benchmarks.add_parser("bibliographic", help="MARC 21 records: harvested, imported, searched")
    catalogue.add_argument("--records", type=int, default=100_000, help="records in the repository")
    catalogue.set_defaults(measure=bibliographic.measure)
    _add_manager(benchmarks)
    pages = benchmarks.add_parser("web", help="every page of the dashboard, with few rows and with many")
    pages.add_argument("--repositories", type=int, default=10_000, help="each with 10 runs and 100 records")
    pages.add_argument("--documents", type=int, default=300_000, help="documents in the archive's tables")
    pages.set_defaults(measure=web.measure)
    _add_large(benchmarks)
    _add_tables(benchmarks)
    steps = benchmarks.add_parser("growth", help="every step at n and at 4n, in databases without statistics")
    steps.add_argument("--only", help="chains or steps, as the table names them, with commas between")
    steps.add_argument("--repeat", type=int, default=3, help="runs of each size, of which the median counts")
    steps.add_argument("--n", type=int, help="the smaller size (default: at which a step takes 2 s)")
    steps.add_argument("--doublings", type=int, default=1, help="how often n may be doubled")
    steps.set_defaults(measure=growth.measure)
    arguments = vars(parser.parse_args())
    arguments.pop("name")
    arguments.pop("measure")(**arguments)
    return 0


def _add_manager(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    started = benchmarks.add_parser("manager", help="from due to started, and an idle manager's polling")
    started.add_argument("--jobs", type=int, default=1000, help="jobs that are due at once")
    started.add_argument("--schedules", type=int, default=10_000, help="schedules of the idle manager")
    started.add_argument("--seconds", type=float, default=30, help="how long it is watched")
    started.set_defaults(measure=manager.measure)
    real = benchmarks.add_parser("manager-harvests", help="real harvests that are due at once, small ones")
    real.add_argument("--jobs", type=int, default=1000, help="repositories, each with one job")
    real.add_argument("--no-prefork", dest="prefork", action="store_false", help="an interpreter for each")
    real.set_defaults(measure=manager.measure_harvests)


def _add_large(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    stock = benchmarks.add_parser("large-archive", help="the index of an archive that outgrows memory")
    stock.add_argument("--rows", type=int, default=4_000_000, help="captures")
    stock.add_argument("--captures", type=int, default=30_000, help="captures of an archive file")
    stock.add_argument("--files", type=int, default=1, help="archive files in a transaction")
    stock.set_defaults(measure=large_archive.measure, buffers="256MB")
    store = benchmarks.add_parser("large-store", help="harvested records and their change feed, both large")
    store.add_argument("--records", type=int, default=10_000_000, help="records; a tenth of them, too")
    store.set_defaults(measure=large_store.measure, buffers="2GB")
    for large in (stock, store):
        large.add_argument("--buffers", help="all the memory of the server for files")
        large.add_argument("--folder", type=Path, help="where the database lies for that time; not in memory")
        large.add_argument(
            "--set", dest="more", action="append", default=[], metavar="NAME=VALUE", help="server's setting"
        )


def _add_tables(benchmarks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    sites = benchmarks.add_parser("titles", help="titles and the figures of their captures")
    sites.add_argument("--documents", type=int, default=1_000_000, help="captures; a quarter of them, too")
    sites.add_argument("--titles", type=int, default=5000, help="titles, each with one seed")
    sites.add_argument(
        "--sets", action="store_true", help="also put all captures into sets, which takes most of the time"
    )
    sites.set_defaults(measure=titles.measure)
    models = benchmarks.add_parser("paging-models", help="the thesis's data models and keyset pages")
    models.add_argument("--documents", type=int, default=1_000_000, help="documents; a quarter of them, too")
    models.add_argument("--only", help="models, with commas between")
    models.set_defaults(measure=paging_models.measure)


if __name__ == "__main__":
    sys.exit(main())
