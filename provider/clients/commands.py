"""Handler of `zatva provider harvesters`."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

from oai.cli import Invocation
from provider.clients.store import HarvestedList, Harvester, harvested_lists, harvesters

_CLIENT_COLUMNS: Final = {
    "address": "Address",
    "user_agent": "User-Agent",
    "sender": "From",
    "last_request": "Last request",
    "requests": "Requests",
    "bytes_sent": "Bytes",
    "refused": "503",
    "told": "Errors",
    "under_way": "In progress",
    "finished": "Finished",
    "abandoned": "Abandoned",
}
_LIST_COLUMNS: Final = {
    "address": "Address",
    "user_agent": "User-Agent",
    "verb": "List",
    "metadata_prefix": "Format",
    "set_spec": "Set",
    "from_date": "From",
    "until_date": "Until",
    "passed": "Passed",
    "complete_size": "Of",
    "state": "State",
    "started": "Begun",
    "last_request": "Last request",
}


def show_harvesters(invocation: Invocation) -> None:
    """`provider harvesters`: show harvesters, or with `--lists` their progress through lists."""
    console = invocation.console
    after = timedelta(hours=invocation.settings.provider.abandoned_hours)
    with invocation.session() as session:
        clients = harvesters(session, abandoned_after=after)
        lists = harvested_lists(session, abandoned_after=after) if invocation.arguments.lists else []
    if invocation.arguments.lists:
        known = {client.key: client for client in clients}
        rows = [_list_row(list_, known.get(list_.client)) for list_ in lists]
        console.table(rows, _LIST_COLUMNS, empty="no lists requested yet")
    else:
        console.table([_client_row(client) for client in clients], _CLIENT_COLUMNS, empty="no requests yet")


def _client_row(client: Harvester) -> dict[str, Any]:
    errors = ", ".join(f"{code} {number:,}" for code, number in client.errors.items())
    return asdict(client) | {"key": str(client.key), "told": errors}


def _list_row(list_: HarvestedList, client: Harvester | None) -> dict[str, Any]:
    whose = {"address": client.address, "user_agent": client.user_agent} if client else {}
    keys = {"key": str(list_.key), "client": str(list_.client)}
    return whose | asdict(list_) | keys | {"state": list_.state.value}
