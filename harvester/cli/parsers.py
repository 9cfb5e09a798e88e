"""Describes the commands `import`, `probe`, `repository`, `restore` and `store`; each names its handler."""

from pathlib import Path
from typing import TYPE_CHECKING

from harvester.cli.harvest_parser import add_protocol, add_request_options, add_retry_options
from oai.cli import add_command, add_group
from oai.command_parser import bigint, count, filled, name_or_number

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from oai.cli import Subcommands


_IMPORTS = "harvester.cli.imports:"
_MARC = "harvester.cli.marc:"
_REPOSITORIES = "harvester.cli.repository:"
_STORE = "harvester.cli.store:"


def add_import(commands: "Subcommands") -> None:
    """Add `zatva import`."""
    group = add_group(
        commands, "import", help="import harvested records as bibliographic records, and search them"
    )
    _add_run(group)
    _add_source(group)
    _add_sets(add_group(group, "set", help="manage filtering sets, which select the records to import"))
    _add_search(group)
    _add_marc(group)


def _add_run(group: "Subcommands") -> None:
    run = add_command(group, "run", help="import new and changed records", handler=f"{_IMPORTS}run")
    _add_repositories(run)
    run.add_argument("--all", action="store_true", help="import from all repositories")
    which = run.add_mutually_exclusive_group()
    which.add_argument("--anew", action="store_true", help="convert all records again")
    which.add_argument(
        "--after-harvest",
        action="store_true",
        help="as after a harvest: only what it changed, and nothing if the settings turn these imports off",
    )
    run.add_argument("--by", metavar="NAME", help="name of the user who starts it (default: the system user)")
    status = add_command(group, "status", help="show running and recent imports", handler=f"{_IMPORTS}status")
    status.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    status.add_argument(
        "--limit", type=count, default=10, metavar="N", help="number of imports (default: %(default)s)"
    )
    add_command(
        group,
        "list",
        help="list the sources with their settings and latest imports",
        handler=f"{_IMPORTS}sources",
    )
    refused = add_command(
        group,
        "refused",
        help="list the records that could not be imported, with the reasons",
        handler=f"{_IMPORTS}refused",
    )
    refused.add_argument("--repository", type=int, metavar="ID", help="only of this repository")
    refused.add_argument("--filtered", action="store_true", help="records that a filtering set excluded")
    refused.add_argument(
        "--limit", type=count, default=100, metavar="N", help="number of records (default: %(default)s)"
    )


def _add_source(group: "Subcommands") -> None:
    source = add_command(
        group, "source", help="show or change how a repository is imported", handler=f"{_IMPORTS}source"
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
    add_command(sets, "list", help="list filtering sets", handler=f"{_IMPORTS}list_sets")
    show = add_command(sets, "show", help="show a set with its conditions", handler=f"{_IMPORTS}show_set")
    remove = add_command(
        sets, "remove", help="remove a set that is not used by a source", handler=f"{_IMPORTS}remove_set"
    )
    add = add_command(sets, "add", help="add a set", handler=f"{_IMPORTS}add_set")
    edit = add_command(
        sets, "edit", help="change a set; the next imports apply it", handler=f"{_IMPORTS}edit_set"
    )
    for parser in (show, remove, add, edit):
        parser.add_argument("name", metavar="NAME", help="name of the set")
    for parser in (add, edit):
        _add_conditions(parser)
        parser.add_argument("--description", metavar="TEXT", help="description of the set")
    trial = add_command(
        sets,
        "try",
        help="test a set, or conditions, on stored records; changes no data",
        handler=f"{_IMPORTS}try_set",
    )
    trial.add_argument("name", metavar="NAME", nargs="?", help="name of a set")
    _add_conditions(trial)
    _add_repositories(trial)
    trial.add_argument(
        "--records", type=count, default=1000, metavar="N",
        help="records of each repository (default: %(default)s)",
    )  # fmt: skip


def _add_search(group: "Subcommands") -> None:
    search = add_command(
        group, "search", help="search the imported records", handler=f"{_IMPORTS}search_records"
    )
    search.add_argument("text", nargs="*", metavar="WORD", help='words, "phrases", -words to exclude, or')
    _add_repositories(search)
    _add_search_filters(search)
    _add_paging(search)
    show = add_command(
        group, "show", help="show a record with all its details", handler=f"{_IMPORTS}show_record"
    )
    show.add_argument("id", type=int, metavar="ID", help="number of the record, as listed by `search`")
    show.add_argument("--lines", action="store_true", help="show the fields of its MARC record instead")


def _add_marc(group: "Subcommands") -> None:
    check = add_command(
        group, "check", help="validate stored MARC records, and count what is wrong", handler=f"{_MARC}check"
    )
    _add_marc_source(check)
    check.add_argument(
        "--level", type=int, choices=(1, 2, 3), default=3,
        help="1: structure; 2: also fields, indicators and subfields; 3: also coded values and dates "
        "(default: %(default)s)",
    )  # fmt: skip
    check.add_argument(
        "--records", type=count, metavar="N", help="check only N records of each repository, chosen at random"
    )
    check.add_argument("--limit", type=count, metavar="N", help="show at most N kinds of findings")
    export = add_command(
        group, "export", help="write stored MARC records to one file", handler=f"{_MARC}export_records"
    )
    _add_marc_source(export)
    export.add_argument(
        "--as", dest="form", choices=("marc", "lines"), default="marc",
        help="ISO 2709 in UTF-8, or text with a line for each field (default: %(default)s)",
    )  # fmt: skip
    _add_out(export)


def _add_marc_source(parser: "ArgumentParser") -> None:
    _add_repositories(parser)
    parser.add_argument(
        "--format",
        metavar="PREFIX",
        help="metadata format of the records (default: the one with MARC records)",
    )


def _add_search_filters(search: "ArgumentParser") -> None:
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


def _add_paging(search: "ArgumentParser") -> None:
    search.add_argument(
        "--order", choices=("relevance", "title", "newest"), help="default: relevance, or title"
    )
    search.add_argument(
        "--limit", type=count, default=20, metavar="N", help="hits per page (default: %(default)s)"
    )
    search.add_argument(
        "--after", metavar="KEY", help="show the next page; KEY is printed at the end of the previous page"
    )
    search.add_argument(
        "--facets", action="store_true", help="show counts by source, language, decade and type instead"
    )


def _add_repositories(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "--repository", type=int, action="append", default=[], metavar="ID",
        help="number of the repository; may be repeated",
    )  # fmt: skip


def _add_conditions(parser: "ArgumentParser") -> None:
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


def add_probe(commands: "Subcommands") -> None:
    """Add `zatva probe`."""
    probe = add_command(
        commands,
        "probe",
        help="probe a repository: its identity, formats, sets and problems",
        handler="harvester.cli.probe:probe_repository",
    )
    probe.add_argument("url", metavar="URL", help="base URL")
    add_protocol(probe)
    probe.add_argument(
        "--set", "--query", default="", metavar="SPEC", help="setSpec, or CQL or PQF query, of the records"
    )
    add_request_options(probe)


def add_repository(commands: "Subcommands") -> None:
    """Add `zatva repository`."""
    group = add_group(commands, "repository", help="manage the repositories to harvest")
    add = add_command(
        group, "add", help="identify a repository and add it", handler=f"{_REPOSITORIES}repository_add"
    )
    add.add_argument("url", metavar="URL", help="base URL")
    add.add_argument(
        "dir", type=filled, metavar="DIR", nargs="?",
        help="folder for its files (default: named after the host)",
    )  # fmt: skip
    add_protocol(add)
    add_command(group, "list", help="list repositories", handler=f"{_REPOSITORIES}repository_list")
    for name, what, handler in (
        ("show", "show a repository with its sets and formats", "repository_show"),
        ("remove", "remove a repository and its database rows; its files stay", "repository_remove"),
        ("refresh", "update the identity, sets and formats of a repository", "repository_refresh"),
        ("unlock", "remove the locks that other programs have put on a repository", "repository_unlock"),
    ):
        one = add_command(group, name, help=what, handler=f"{_REPOSITORIES}{handler}")
        one.add_argument("id", metavar="ID", type=int, help="number of the repository")
    _add_edit(group)
    _add_doctor(group)
    _add_policy(group)


def _add_edit(group: "Subcommands") -> None:
    edit = add_command(
        group,
        "edit",
        help="change the given options; an empty value resets an option, as in `--name ''`; the folder stays",
        handler=f"{_REPOSITORIES}repository_edit",
    )
    edit.add_argument("id", metavar="ID", type=int, help="number of the repository")
    edit.add_argument(
        "--name",
        dest="repository_name",
        metavar="NAME",
        help="display name; empty: the name that the repository declares",
    )
    edit.add_argument(
        "--url",
        dest="base_url",
        metavar="URL",
        help="new base URL; if host or path differ, the next harvest requests all records; on the same host, "
        "user name and password are kept (https://@host/path: none)",
    )
    edit.add_argument(
        "--repair",
        dest="repairs",
        action="append",
        metavar="KIND",
        help="repair broken records on arrival: ampersand, entity, control, angle, windows-1250 or "
        "windows-1252; may be repeated, and replaces those chosen before; none: no repairs",
    )
    _add_policy_options(edit)


def _add_doctor(group: "Subcommands") -> None:
    doctor = add_command(
        group,
        "doctor",
        help="diagnose a repository and recommend how to harvest it",
        handler=f"{_REPOSITORIES}repository_doctor",
    )
    doctor.add_argument(
        "which", type=name_or_number, metavar="ID|URL", help="number of a repository, or any base URL"
    )
    doctor.add_argument(
        "--letter", action="store_true", help="print a letter to the repository's administrator instead"
    )
    doctor.add_argument(
        "--last", action="store_true", help="show the repository's last diagnostics without new requests"
    )


def _add_policy(group: "Subcommands") -> None:
    policy = add_command(
        group,
        "policy",
        help="set what happens to deleted records, and the limits of the mass-change guard",
        handler=f"{_REPOSITORIES}repository_policy",
    )
    policy.add_argument("id", metavar="ID", type=int, help="number of the repository")
    _add_policy_options(policy)


def _add_policy_options(parser: "ArgumentParser") -> None:
    parser.add_argument(
        "--deletions",
        dest="deletion_policy",
        choices=("remove", "mark", "move"),
        help="what happens to a deleted record's file",
    )
    parser.add_argument(
        "--brake-deletions",
        metavar="PERCENT",
        help="mass-change guard: percentage of the records that a run may delete; `default`: the setting",
    )
    parser.add_argument(
        "--brake-updates",
        metavar="PERCENT",
        help="mass-change guard: percentage of the records that a run may change; `default`: the setting",
    )


def add_restore(commands: "Subcommands") -> None:
    """Add `zatva restore`."""
    restore = add_command(
        commands,
        "restore",
        help="restore archived documents from a Zatva provider, as a browsable copy or as WARC files",
        handler="harvester.cli.restore:restore_site",
    )
    restore.add_argument(
        "what",
        metavar="SET|URL-PREFIX",
        help="setSpec, or the beginning of the URLs: http://www.example.cz/",
    )
    restore.add_argument(
        "folder", metavar="DIR", type=Path, help="new folder, or the folder of a restore to continue"
    )
    restore.add_argument(
        "--from", dest="base_url", metavar="BASEURL",
        help="base URL of the provider (default: the provider of the settings)",
    )  # fmt: skip
    restore.add_argument(
        "--at",
        metavar="TIME",
        help="restore the capture of each URL that is nearest to this date or time (UTC)",
    )
    restore.add_argument(
        "--as", dest="form", choices=("files", "warc"), default="files",
        help="a copy to browse from disk, or WARC files (default: %(default)s)",
    )  # fmt: skip
    restore.add_argument(
        "--dry-run", action="store_true", help="show what would be fetched, without fetching or writing"
    )
    add_retry_options(restore)


def add_store(commands: "Subcommands") -> None:
    """Add `zatva store`."""
    group = add_group(commands, "store", help="manage the files of harvested records")
    verify = add_command(
        group, "verify", help="find missing, altered and stray files", handler=f"{_STORE}verify"
    )
    verify.add_argument(
        "repository",
        metavar="REPOSITORY",
        type=int,
        nargs="?",
        help="number of the repository (default: all)",
    )
    verify.add_argument(
        "--repair", action="store_true", help="remove unfinished temporary files, but no other files"
    )
    _add_rebuild(group)
    _add_export(group)


def _add_rebuild(group: "Subcommands") -> None:
    rebuild = add_command(
        group, "rebuild", help="rebuild the database rows from the record files", handler=f"{_STORE}rebuild"
    )
    rebuild.add_argument(
        "repository", metavar="REPOSITORY", type=int, nargs="?", help="number of the repository"
    )
    rebuild.add_argument("--dir", type=filled, metavar="DIR", help="folder of a current or former repository")
    rebuild.add_argument(
        "--url", metavar="URL", help="base URL of a repository that is no longer in the database"
    )
    rebuild.add_argument(
        "--format",
        default="oai_dc",
        metavar="PREFIX",
        help="metadataPrefix of files whose names do not contain one, if it is unknown (default: "
        "%(default)s)",
    )


def _add_export(group: "Subcommands") -> None:
    export = add_command(
        group, "export", help="export records into one file", handler=f"{_STORE}export_records"
    )
    export.add_argument(
        "repository",
        metavar="REPOSITORY",
        type=int,
        nargs="?",
        help="number of the repository whose records are exported",
    )
    export.add_argument("--run", type=bigint, metavar="HISTORY_ID", help="the records that this run changed")
    export.add_argument(
        "--as", dest="form", choices=("tar", "zip", "jsonl"), required=True, help="format of the export"
    )
    _add_out(export)


def _add_out(export: "ArgumentParser") -> None:
    export.add_argument(
        "--out", type=filled, metavar="FILE", help="file, or s3://BUCKET/KEY (default: standard output)"
    )
