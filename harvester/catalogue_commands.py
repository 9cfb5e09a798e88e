"""What `zatva import search` and `zatva import show` do."""

from dataclasses import asdict
from typing import Any

from harvester.bibliographic.facets import count_facets
from harvester.bibliographic.restricting import Search
from harvester.bibliographic.searching import Hit, Order, search
from harvester.bibliographic.showing import FoundRecord, get_record
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode

_COLUMNS = {"bibliographic_id": "ID", "year": "Year", "kind": "Type", "names": "Names", "title": "Title"}


def search_records(invocation: Invocation) -> ExitCode:
    """Search, or count."""
    arguments = invocation.arguments
    wanted = Search(
        text=" ".join(arguments.text),
        repositories=arguments.repository,
        languages=arguments.language,
        kinds=arguments.type,
        year_from=arguments.from_,
        year_to=arguments.until,
        identifier=arguments.identifier,
        authority_id=arguments.authority,
    )
    with open_database(invocation.settings) as database, database.session() as session:
        if arguments.facets:
            found = asdict(count_facets(session, wanted))
            invocation.console.result(found, _facets_in_words(found))
            return ExitCode.DONE
        order = Order(arguments.order) if arguments.order else None
        page = search(session, wanted, order=order, after=arguments.after, limit=arguments.limit)
    rows = [_row(hit) for hit in page.hits]
    invocation.console.table(rows, _COLUMNS, empty="no records found")
    if page.next is not None:
        invocation.console.note(f"next page: --after {page.next}")
    return ExitCode.DONE


def show_record(invocation: Invocation) -> ExitCode:
    """Show a record."""
    with open_database(invocation.settings) as database, database.session() as session:
        found = get_record(session, invocation.arguments.id)
    invocation.console.result(asdict(found), _in_words(found))
    return ExitCode.DONE


def _row(hit: Hit) -> dict[str, Any]:
    return {
        **asdict(hit),
        "year": hit.date_text or (None if hit.year_from is None else str(hit.year_from)),
        "names": "; ".join(hit.contributors),
    }


def _facets_in_words(found: dict[str, Any]) -> str:
    lines = [f"{found['total']:,} records" if found["whole"] else f"more than {found['total']:,} records"]
    for name in ("sources", "languages", "decades", "kinds"):
        counted = ", ".join(f"{one['value']} {one['count']:,}" for one in found[name])
        lines.append(f"{name}: {counted or 'none'}")
    return "\n".join(lines)


def _in_words(found: FoundRecord) -> str:
    lines = [
        f"{name}: {_word(value)}"
        for name, value in asdict(found).items()
        if value not in ("", None, [], ()) and not isinstance(value, list | tuple)
    ]
    lines += [
        f"{name}: {_word(part)}"
        for name, value in asdict(found).items()
        if isinstance(value, list | tuple)
        for part in value
    ]
    return "\n".join(lines)


def _word(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(
            f"{name} {_word(part)}" for name, part in value.items() if part not in ("", [], (), False)
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)
