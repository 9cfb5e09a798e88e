"""Handlers of `zatva provider collection`, `access`, `hide`, `unhide`, `redate` and `find`."""

from argparse import Namespace
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from oai.cli import Invocation
from oai.console import counted
from oai.datestamps import format_datestamp, parse_datestamp
from oai.errors import UsageError
from provider.holdings import access, collections, membership, previews, selection
from provider.holdings.capture import FILTERS, FoundCapture, read_collapse
from provider.holdings.identifiers import oai_identifier, parse_oai_identifier
from provider.holdings.index_reads import ReadOrder
from provider.holdings.lookup import MatchType, Query, find_captures, read_wildcard
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.holdings.url_key_state import warn_if_incomplete
from provider.models import Access, Collection
from provider.titles.publication import redate_titles

_COLUMNS = {"set_spec": "Set", "name": "Name", "documents": "Documents", "rule": "Access"}
_CAPTURE_COLUMNS = {
    "archived": "Captured",
    "status": "Status",
    "mime_type": "Type",
    "url": "URL",
    "access": "Access",
    "identifier": "Identifier",
}
_LISTED = tuple(rule for rule in Access if rule is not Access.WITHHELD)


def collection_add(invocation: Invocation) -> None:
    """`provider collection add`: create a collection, or change its name and description."""
    arguments = invocation.arguments
    with invocation.session() as session:
        made = collections.add_collection(
            session, arguments.spec, name=arguments.name, description=arguments.description
        )
        found = {"set_spec": made.set_spec, "name": made.name}
        number = made.id
        session.commit()
        documents = membership.settle_collection(session, number, margin=margin_of(invocation))
    words = f"; {counted(documents, 'document')} with a new datestamp" * bool(documents)
    invocation.console.result(
        {**found, "documents": documents}, f"{found['set_spec']}: {found['name']}{words}"
    )


def collection_list(invocation: Invocation) -> None:
    """`provider collection list`: show the tree with numbers of documents."""
    with invocation.session() as session:
        rows = [_row(one) for one in collections.list_collections(session)]
    empty = "no collections yet; add one with `zatva provider collection add`"
    invocation.console.table(rows, _COLUMNS, empty=empty)


def _row(collection: Collection) -> dict[str, object]:
    until = collection.embargo_until and format_datestamp(collection.embargo_until)
    return {
        "set_spec": collection.set_spec,
        "name": collection.name,
        "documents": collection.documents,
        "access": collection.access,
        "embargo_until": until,
        "rule": f"{collection.access} until {until}" if until else collection.access,
        "description": collection.description,
    }


def collection_move(invocation: Invocation) -> None:
    """`provider collection move`: move or rename a collection."""
    arguments = invocation.arguments
    old, new = arguments.spec, arguments.new_spec
    with invocation.session() as session:
        number = collections.move(session, old, new, margin=margin_of(invocation))
    invocation.about(new)
    found = {"set_spec": new, "before": old, "documents": number}
    invocation.console.result(
        found, f"{old} is now {new}; {counted(number, 'document')} with a new datestamp"
    )


def collection_drop(invocation: Invocation) -> None:
    """`provider collection drop`: remove a collection."""
    arguments, spec = invocation.arguments, invocation.arguments.spec
    with invocation.session() as session:
        number = collections.drop(session, spec, force=arguments.force, margin=margin_of(invocation))
    found = {"set_spec": spec, "documents": number}
    invocation.console.result(found, f"{spec} removed; it had {counted(number, 'document')}")


def collection_access(invocation: Invocation) -> None:
    """`provider collection access`: set who may see its documents."""
    arguments, spec = invocation.arguments, invocation.arguments.spec
    rule = Rule(
        access=Access(arguments.rule.replace("-", " ")),
        embargo_until=parse_moment("--until", arguments.until),
    )
    with invocation.session() as session:
        if arguments.dry_run:
            _show_preview(invocation, previews.preview_rule(session, spec, rule))
            return
        number = access.set_rule(session, spec, rule, margin=margin_of(invocation))
    found = {"set_spec": spec, "access": rule.access, "documents": number}
    invocation.console.result(
        found, f"{spec}: {rule.access}; the access rule of {counted(number, 'document')} changed"
    )


def access_refresh(invocation: Invocation) -> None:
    """`provider access refresh`: lift embargoes that have ended, and finish interrupted changes."""
    with invocation.session() as session:
        number = access.refresh(session, margin=margin_of(invocation))
    invocation.console.result({"documents": number}, f"{counted(number, 'document')} changed")


def collection_assign(invocation: Invocation) -> None:
    """`provider collection assign`: add documents to a collection."""
    _change_collection(invocation, collections.assign, "added to", takes_out=False)


def collection_remove(invocation: Invocation) -> None:
    """`provider collection remove`: remove documents from a collection."""
    _change_collection(invocation, collections.remove, "removed from", takes_out=True)


def _change_collection(
    invocation: Invocation, change: Callable[..., int], done: str, *, takes_out: bool
) -> None:
    spec = invocation.arguments.spec
    selection = _selection(invocation.arguments)
    with invocation.session() as session:
        if invocation.arguments.dry_run:
            found = previews.preview_assignment(session, spec, selection, takes_out=takes_out)
            _show_preview(invocation, found)
            return
        invocation.about(spec, selection=selection.as_json())
        number = change(session, spec, selection, margin=margin_of(invocation))
    invocation.console.result(
        {"set_spec": spec, "documents": number}, f"{counted(number, 'document')} {done} {spec}"
    )


def _show_preview(invocation: Invocation, found: previews.ChangePreview) -> None:
    lines = [
        f"{'more than ' if found.more else ''}{counted(found.documents, 'document')}; nothing is changed",
        *(f"  {pair[0]} -> {pair[1]}: {counted(count, 'document')}" for pair, count in found.access.items()),
        f"{counted(found.harvesters, 'harvester')} may have documents whose access changes",
    ]
    invocation.console.result(found.as_json(), "\n".join(lines))


def hide(invocation: Invocation) -> None:
    """`provider hide`: report documents as deleted."""
    advice = (
        "`zatva provider find`, or hide those that are indexed later, too, with `zatva provider takedown add`"
    )
    _mark(invocation, advice, hidden=True)


def unhide(invocation: Invocation) -> None:
    """`provider unhide`: show hidden documents again."""
    _mark(invocation, "`zatva provider find --all`", hidden=False)


def _mark(invocation: Invocation, advice: str, *, hidden: bool) -> None:
    arguments, settings = invocation.arguments, invocation.settings.provider
    chosen = _selection(arguments, **_named(arguments.document, settings.namespace))
    invocation.about(None, selection=chosen.as_json())
    with invocation.session() as session:
        if chosen.url is not None:
            warn_if_incomplete(session)
        held = selection.taken_down(session, chosen, hidden=hidden)
        mark = selection.hide if hidden else selection.unhide
        number = mark(session, chosen, margin=settings.publish_margin)
        if not number and not selection.matches_any(session, chosen):
            invocation.console.note(f"no documents match; find them with {advice}")
    invocation.about(None, selection=chosen.as_json(), documents=number)
    if hidden:
        words = f"{counted(number + held, 'document')} hidden"
        more = f"; of them already hidden by a take-down: {held:,}"
    else:
        words = f"{counted(number, 'document')} shown again"
        more = f"; still hidden by a take-down: {held:,}"
    invocation.console.result({"documents": number, "taken_down": held}, words + more * bool(held))


def redate(invocation: Invocation) -> None:
    """`provider redate`: give records that show something else a new datestamp."""
    arguments, margin = invocation.arguments, margin_of(invocation)
    documents = titles = 0
    with invocation.session() as session:
        if arguments.titles:
            titles = redate_titles(session, margin=margin)
            session.commit()
        else:
            chosen = selection.in_file_or_set(session, arc=arguments.arc, set_spec=arguments.set)
            documents = selection.redate(session, chosen, margin=margin)
    counts = {"documents": documents, "titles": titles}
    invocation.about(None, set=arguments.set, archive_file=arguments.arc, documents=documents, titles=titles)
    found = counted(titles, "title") if arguments.titles else counted(documents, "document")
    invocation.console.result(counts, f"{found} with a new datestamp")


def _named(document: str | None, namespace: str) -> dict[str, object]:
    if document is None:
        return {}
    if not document.startswith("oai:"):
        return {"url": document}
    key = parse_oai_identifier(namespace, document)
    if key is None:
        raise UsageError(
            f"{document!r} is not an identifier of this repository; write it as oai:{namespace}:<32 digits>"
        )
    return {"key": key}


def _selection(arguments: Namespace, **named: object) -> Selection:
    return Selection(
        arc=arguments.arc,
        url_prefix=arguments.url_prefix,
        domain=arguments.domain,
        since=parse_moment("--from", arguments.since),
        until=parse_moment("--until", arguments.until, last=True),
        **named,  # type: ignore[arg-type]  # url or key, as `_named` has it
    )


def lines_of_list(file: Path) -> list[str]:
    """Return the lines of the file of option `--list`, without blank ones; raises UsageError."""
    try:
        lines = file.read_text(encoding="utf-8").split("\n")  # URLs may contain other breaks
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--list: {file}: {error}") from None
    return [line.strip() for line in lines if line.strip()]


def parse_moment(option: str, value: str | None, *, last: bool = False) -> datetime | None:
    """Return the first moment that an option's datestamp covers, or with `last` the last microsecond."""
    if value is None:
        return None
    try:
        datestamp = parse_datestamp(value)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    return datestamp.last_second + timedelta(microseconds=999_999) if last else datestamp.moment


def margin_of(invocation: Invocation) -> float:
    """Return the seconds by which changes are dated ahead (setting `provider.publish_margin`)."""
    return invocation.settings.provider.publish_margin


def find(invocation: Invocation) -> None:
    """`provider find`: list captures of a URL."""
    arguments = invocation.arguments
    closest = parse_moment("--closest", arguments.closest)
    order = ReadOrder.REVERSE if arguments.reverse else ReadOrder.FORWARD
    url, match = (
        (arguments.url, MatchType(arguments.match)) if arguments.match else read_wildcard(arguments.url)
    )
    query = Query(
        url=url,
        match=match,
        since=parse_moment("--from", arguments.since),
        until=parse_moment("--until", arguments.until, last=True),
        order=order if closest is None else ReadOrder.CLOSEST,
        closest=closest,
        limit=arguments.limit,
        filters=FILTERS.read(arguments.filter or []),
        collapse=read_collapse(arguments.collapse),
        rules=tuple(Access) if arguments.all else _LISTED,
        hidden=arguments.all,
    )
    with invocation.session() as session:
        result = find_captures(session, query)
    rows = [_capture_row(one, invocation.settings.provider.namespace) for one in result.found]
    invocation.console.table(rows, _CAPTURE_COLUMNS, empty=_nothing(query))
    if result.end is not None:
        invocation.console.note(f"showing the first {len(rows):,} captures; to see more, use --limit")


def _nothing(query: Query) -> str:
    asked = f"no captures of {query.url!r}"
    if query.match is MatchType.EXACT:
        return f"{asked}; to search more widely, use --prefix, --host or --domain"
    return f"{asked} ({query.match})"


def _capture_row(found: FoundCapture, namespace: str) -> dict[str, object]:
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
