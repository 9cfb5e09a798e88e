"""`zatva import`, described: bibliographic records out of harvested ones."""

from typing import TYPE_CHECKING

from oai.cli import add_command, add_group

if TYPE_CHECKING:
    import argparse

    from oai.cli import Subcommands

_RUN = "harvester.import_commands:"
_SETS = "harvester.import_set_commands:"
_CATALOGUE = "harvester.catalogue_commands:"


def add_import(commands: "Subcommands") -> None:
    """Add `zatva import`."""
    group = add_group(
        commands, "import", help="import harvested records as bibliographic records, and search them"
    )
    _add_run(group)
    _add_source(group)
    _add_sets(add_group(group, "set", help="manage filtering sets, which select the records to import"))
    _add_catalogue(group)


def _add_run(group: "Subcommands") -> None:
    run = add_command(group, "run", help="import new and changed records", handler=f"{_RUN}run")
    _add_repositories(run)
    run.add_argument("--all", action="store_true", help="import from all repositories")
    run.add_argument("--anew", action="store_true", help="convert all records again")
    run.add_argument("--by", metavar="NAME", help="name of the user who starts it (default: the system user)")
    status = add_command(group, "status", help="show running and recent imports", handler=f"{_RUN}status")
    status.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    status.add_argument(
        "--limit", type=int, default=10, metavar="N", help="number of imports (default: %(default)s)"
    )
    add_command(
        group,
        "list",
        help="list the sources with their settings and latest imports",
        handler=f"{_RUN}sources",
    )
    refused = add_command(
        group,
        "refused",
        help="list the records that could not be imported, with the reasons",
        handler=f"{_RUN}refused",
    )
    refused.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    refused.add_argument("--filtered", action="store_true", help="records that a filtering set excluded")
    refused.add_argument(
        "--limit", type=int, default=100, metavar="N", help="number of records (default: %(default)s)"
    )


def _add_source(group: "Subcommands") -> None:
    source = add_command(
        group, "source", help="show or change how a repository is imported", handler=f"{_RUN}source"
    )
    source.add_argument("id", type=int, metavar="ID", help="number of the repository")
    source.add_argument(
        "--record-url",
        metavar="TEMPLATE",
        help="address of a record's page, with {identifier}, {local} (the part after its namespace) or "
        "{control_number}; `none` removes it",
    )
    source.add_argument(
        "--after-harvest", choices=("yes", "no"), help="whether each harvest is followed by an import"
    )
    source.add_argument(
        "--set", metavar="NAME", help="filtering set that selects the records; `none` for all records"
    )
    source.add_argument(
        "--format", metavar="PREFIX", help="metadata format to import; `best` for the most detailed one"
    )


def _add_sets(sets: "Subcommands") -> None:
    add_command(sets, "list", help="list filtering sets", handler=f"{_SETS}list_all")
    show = add_command(sets, "show", help="show a set with its conditions", handler=f"{_SETS}show")
    remove = add_command(
        sets, "remove", help="remove a set that is not used by a source", handler=f"{_SETS}remove"
    )
    add = add_command(sets, "add", help="add a set", handler=f"{_SETS}add")
    edit = add_command(sets, "edit", help="change a set; the next imports apply it", handler=f"{_SETS}edit")
    for parser in (show, remove, add, edit):
        parser.add_argument("name", metavar="NAME")
    for parser in (add, edit):
        _add_conditions(parser)
        parser.add_argument("--description", metavar="TEXT", help="description of the set")
    trial = add_command(
        sets,
        "try",
        help="test a set, or conditions, on stored records; changes no data",
        handler=f"{_SETS}attempt",
    )
    trial.add_argument("name", metavar="NAME", nargs="?", help="name of a set")
    _add_conditions(trial)
    _add_repositories(trial)
    trial.add_argument(
        "--records",
        type=int,
        default=1000,
        metavar="N",
        help="records of each repository (default: %(default)s)",
    )


def _add_catalogue(group: "Subcommands") -> None:
    search = add_command(
        group, "search", help="search the imported records", handler=f"{_CATALOGUE}search_records"
    )
    search.add_argument("text", nargs="*", metavar="WORD", help='words, "phrases", -words to exclude, or')
    _add_repositories(search)
    _add_conditions_of_hits(search)
    _add_paging(search)
    show = add_command(
        group, "show", help="show a record with all its details", handler=f"{_CATALOGUE}show_record"
    )
    show.add_argument("id", type=int, metavar="ID", help="number of the record, as listed by `search`")


def _add_conditions_of_hits(search: "argparse.ArgumentParser") -> None:
    search.add_argument(
        "--language", action="append", default=[], metavar="CODE", help="cze, slo …; may be repeated"
    )
    search.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="book, article …; may be repeated"
    )
    search.add_argument(
        "--from", dest="from_", type=int, metavar="YEAR", help="published in or after this year"
    )
    search.add_argument("--until", type=int, metavar="YEAR", help="published in or before this year")
    search.add_argument(
        "--identifier", default="", metavar="NUMBER", help="ISBN, ISSN, control number, DOI …"
    )
    search.add_argument(
        "--authority", default="", metavar="ID", help="authority id of a person or corporate body"
    )


def _add_paging(search: "argparse.ArgumentParser") -> None:
    search.add_argument(
        "--order", choices=("relevance", "title", "newest"), help="default: relevance, or title"
    )
    search.add_argument(
        "--limit", type=int, default=20, metavar="N", help="hits per page (default: %(default)s)"
    )
    search.add_argument(
        "--after", metavar="KEY", help="show the next page; KEY is printed at the end of the previous page"
    )
    search.add_argument(
        "--facets", action="store_true", help="show counts by source, language, decade and type instead"
    )


def _add_repositories(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument(
        "--repository",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="number of the repository; may be repeated",
    )


def _add_conditions(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument(
        "--match", choices=("any", "all"), help="whether one or all conditions must match (default: all)"
    )
    parser.add_argument(
        "--where",
        action="append",
        metavar="CONDITION",
        help="`245$a contains slovník`, `008/35-37 equals cze`, `650[_7]$2 matches ^cz`, `not 655 "
        "exists`; for Dublin Core `language equals cs`; may be repeated",
    )
