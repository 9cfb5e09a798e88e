"""What `zatva provider find` does."""

from oai.cli import Invocation
from oai.database import open_database
from oai.datestamps import format_datestamp
from oai.errors import ExitCode
from provider.collection_commands import parse_moment
from provider.holdings.identifiers import oai_identifier
from provider.holdings.lookup import Found, Match, Query, find_captures
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
    query = Query(
        url=arguments.url,
        match=Match(arguments.match or Match.EXACT),
        since=parse_moment("--from", arguments.since),
        until=parse_moment("--until", arguments.until, last=True),
        limit=arguments.limit,
        rules=tuple(Access) if arguments.all else _LISTED,
        hidden=arguments.all,
    )
    with open_database(settings) as database, database.session() as session:
        rows = [_row(one, settings.provider.namespace) for one in find_captures(session, query)]
    invocation.console.table(rows, _COLUMNS, empty=f"nothing is archived of {arguments.url}")
    if len(rows) == arguments.limit:
        invocation.console.note(f"the first {len(rows):,}; there may be more: see --limit")
    return ExitCode.DONE


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
