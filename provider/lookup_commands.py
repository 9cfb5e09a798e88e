"""What `zatva provider find` does."""

from oai.cli import Invocation
from oai.database import open_database
from oai.datestamps import format_datestamp
from oai.errors import ExitCode
from provider.collection_commands import parse_moment
from provider.holdings.found import Found
from provider.holdings.identifiers import oai_identifier
from provider.holdings.index_batches import Order
from provider.holdings.lookup import Match, Query, find_captures, read_wildcard
from provider.holdings.sieve import read_collapse, read_filters
from provider.models import Access

_COLUMNS = {
    "archived": "Captured",
    "status": "Status",
    "mime_type": "Type",
    "url": "URL",
    "access": "Access",
    "identifier": "Identifier",
}
_LISTED = tuple(rule for rule in Access if rule is not Access.WITHHELD)


def find(invocation: Invocation) -> ExitCode:
    """`provider find`: what is archived of a URL."""
    arguments, settings = invocation.arguments, invocation.settings
    closest = parse_moment("--closest", arguments.closest)
    order = Order.REVERSE if arguments.reverse else Order.FORWARD
    url, match = (arguments.url, Match(arguments.match)) if arguments.match else read_wildcard(arguments.url)
    query = Query(
        url=url,
        match=match,
        since=parse_moment("--from", arguments.since),
        until=parse_moment("--until", arguments.until, last=True),
        order=order if closest is None else Order.CLOSEST,
        closest=closest,
        limit=arguments.limit,
        filters=read_filters(arguments.filter or []),
        collapse=read_collapse(arguments.collapse),
        rules=tuple(Access) if arguments.all else _LISTED,
        hidden=arguments.all,
    )
    with open_database(settings) as database, database.session() as session:
        result = find_captures(session, query)
    rows = [_row(one, settings.provider.namespace) for one in result.found]
    invocation.console.table(rows, _COLUMNS, empty=_nothing(query))
    if result.end is not None:
        invocation.console.note(f"showing the first {len(rows):,} captures; to see more, use --limit")
    return ExitCode.DONE


def _nothing(query: Query) -> str:
    asked = f"no captures of {query.url!r}"
    if query.match is Match.EXACT:
        return f"{asked}; to search more widely, use --prefix, --host or --domain"
    return f"{asked} ({query.match})"


def _row(found: Found, namespace: str) -> dict[str, object]:
    return {
        "identifier": oai_identifier(namespace, found.key),
        "url": found.url,
        "archived": format_datestamp(found.archived),
        "status": found.http_status,
        "mime_type": found.mime_type,
        "record_type": found.record_type,
        "digest": found.digest,
        "length": found.length,
        "file": found.path,
        "offset": found.offset,
        "access": "hidden" if found.deleted else found.access,
    }
