"""Handler of `zatva probe`."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harvester.cli.harvest import overridden
from harvester.client.probe import ProbeExchange, ProbeFindings
from harvester.probing.look import look
from harvester.protocols import protocol_of
from harvester.reading.answers import Page, Record, title_of
from harvester.recognition import check_base_url
from oai.child import limit_memory
from oai.cli import Invocation

_SHOWN: Final = 10
_TITLE_CHARACTERS: Final = 60
_MAX_WAIT: Final = 30.0
_MAX_WAIT_TOTAL: Final = 120.0
"""Seconds; a person is waiting for the probe."""


def probe_repository(invocation: Invocation) -> None:
    """Show the identity, formats, sets, first records and problems of a repository; nothing is stored."""
    arguments = invocation.arguments
    protocol = protocol_of(arguments.url, arguments.protocol)
    base_url = check_base_url(arguments.url, protocol)
    settings = overridden(invocation.settings, arguments).interactive

    patient = settings.harvester
    waits = {
        "max_wait": min(patient.max_wait, _MAX_WAIT),
        "max_wait_total": min(patient.max_wait_total, _MAX_WAIT_TOTAL),
    }
    settings = settings.model_copy(update={"harvester": patient.model_copy(update=waits)})
    limit_memory(patient.max_memory)
    on_wait = invocation.console.waiting
    looked = asyncio.run(look(base_url, settings, protocol=protocol, set_spec=arguments.set, on_wait=on_wait))
    shown = _as_json(looked.findings) | {"odd": list(looked.odd)}
    invocation.console.result(shown, "\n".join(_lines(shown)))


def _as_json(found: ProbeFindings) -> dict[str, Any]:
    identity = found.identity
    return {
        "base_url": found.base_url,
        "repository_name": identity.repository_name if identity else None,
        "identify_base_url": identity.base_url if identity else None,
        "protocol_version": identity.protocol_version if identity else None,
        "admin_emails": list(identity.admin_emails) if identity else [],
        "granularity": identity.granularity if identity else None,
        "deleted_record": identity.deleted_record if identity else None,
        "earliest_datestamp": identity.earliest_datestamp if identity else None,
        "formats": [
            {"metadata_prefix": form.metadata_prefix, "schema": form.schema, "namespace": form.namespace}
            for form in found.formats
        ],
        "sets": [
            {"set_spec": one.set_spec, "set_name": one.set_name}
            for one in (found.sets.sets[:_SHOWN] if found.sets else ())
        ],
        "more_sets": found.sets is not None
        and (len(found.sets.sets) > _SHOWN or bool(found.sets.token and found.sets.token.value)),
        "metadata_prefix": found.metadata_prefix,
        **_page(found.page),
        "requests": [_request(exchange) for exchange in found.exchanges],
    }


def _page(page: Page | None) -> dict[str, Any]:
    token = page.token if page else None
    return {
        "records": [_record(record) for record in (page.records[:_SHOWN] if page else ())],
        "records_per_page": len(page.records) if page else None,
        "complete_list_size": page.complete_list_size if page else None,
        "resumption_token": token.value if token else None,
    }


def _record(record: Record) -> dict[str, Any]:
    return {
        "identifier": record.header.identifier,
        "datestamp": record.header.datestamp,
        "deleted": record.header.deleted,
        "title": title_of(record.element) or None,
    }


def _request(exchange: ProbeExchange) -> dict[str, Any]:
    reply = exchange.reply
    return {
        "verb": exchange.verb,
        "status": reply.status,
        "seconds": round(exchange.seconds, 3),
        "bytes": len(reply.body),
        "compression": list(reply.compression),
        "content_type": reply.headers.get("Content-Type"),
        "redirects": list(reply.hops),
    }


def _lines(shown: Mapping[str, Any]) -> Iterator[str]:
    yield f"{shown['repository_name'] or 'A repository without a name'}, {shown['base_url']}"
    for name in ("protocol_version", "granularity", "deleted_record", "earliest_datestamp"):
        yield f"  {name.replace('_', ' ')}: {shown[name] or 'unknown'}"
    yield f"  admin e-mail: {', '.join(shown['admin_emails']) or 'none'}"
    yield f"Formats: {len(shown['formats'])}"
    yield from (f"  {form['metadata_prefix']}  {form['namespace']}" for form in shown["formats"])
    more = "; these are the first" if shown["more_sets"] else ""
    yield f"Sets: {len(shown['sets']) or 'none'}{more}"
    yield from (f"  {one['set_spec']}  {one['set_name']}" for one in shown["sets"])
    yield _records_heading(shown)
    yield from map(_record_line, shown["records"])
    if shown["requests"]:
        yield "Requests"
    yield from map(_request_line, shown["requests"])
    yield from _odd_lines(shown["odd"])


def _records_heading(shown: Mapping[str, Any]) -> str:
    if shown["records_per_page"] is None:
        return f"Records in {shown['metadata_prefix']}: not available"
    size = shown["complete_list_size"]
    of_all = f" of {size:,}" if size is not None else ""
    page = f"{shown['records_per_page']:,}{of_all} on the first page"
    return f"Records in {shown['metadata_prefix']}: {page}; the first {len(shown['records'])}"


def _record_line(record: Mapping[str, Any]) -> str:
    title = "(deleted)" if record["deleted"] else " ".join((record["title"] or "").split())
    return f"  {record['identifier']}  {record['datestamp']}  {title[:_TITLE_CHARACTERS]}".rstrip()


def _request_line(request: Mapping[str, Any]) -> str:
    compression = f", {', '.join(request['compression'])}" if request["compression"] else ""
    size = f"{request['bytes']:,} bytes{compression}"
    return f"  {request['verb']}: HTTP {request['status']}, {request['seconds']:.2f} s, {size}"


def _odd_lines(odd: Sequence[str]) -> Iterator[str]:
    yield "Problems" if odd else "No problems found."
    yield from (f"  - {words}" for words in odd)
