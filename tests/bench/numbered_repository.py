"""Repositories that generate records by number, for benchmarks of growth.

`python -m tests.bench.numbered_repository`. Each path is a separate repository, which a request to
`PATH/state` sets up and changes between two harvests:

`records` is the number of records, `policy` its deletedRecord, `version` is incremented when every record
changed, `gone=1` deletes every second record, `prefix` is oai_dc or marc21.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from tests.bench.marc_records import marc_record
from tests.bench.memory_repository import DATE, PAGE, dublin_core, head, identify, serve

SET: Final = "part"
"""The set that contains every record."""
_NAMESPACES: Final = {
    "oai_dc": "http://www.openarchives.org/OAI/2.0/oai_dc/",
    "marc21": "http://www.loc.gov/MARC21/slim",
}


@dataclass(kw_only=True)
class _State:
    """Present state of a repository; `dates` are the datestamps of its versions."""

    policy: str = "persistent"
    records: int = 0
    version: int = 0
    gone: bool = False
    prefix: str = "oai_dc"
    dates: list[str] = field(default_factory=lambda: [DATE])

    @property
    def date(self) -> str:
        """Datestamp of every record."""
        return self.dates[self.version]

    def change(self, values: dict[str, str]) -> None:
        """Apply the values of a request to the state."""
        self.policy = values.get("policy", self.policy)
        self.prefix = values.get("prefix", self.prefix)
        self.records = int(values.get("records", self.records))
        self.gone = values.get("gone", "") == "1" or self.gone
        self.version = int(values.get("version", self.version))
        while len(self.dates) <= self.version:
            self.dates.append(_now())


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _envelope(inner: str) -> bytes:
    return f"{head(_now())}{inner}</OAI-PMH>".encode()


def _answer(state: _State, arguments: dict[str, str]) -> bytes:
    verb = arguments.get("verb", "")
    if verb in {"ListRecords", "ListIdentifiers"}:
        return _list(state, verb, arguments)
    if verb == "GetRecord":
        number = int(arguments["identifier"].rpartition(":")[2])
        return _envelope(f"<GetRecord>{_record(state, number)}</GetRecord>")
    if verb == "ListSets":
        listed = f"<set><setSpec>{SET}</setSpec><setName>All</setName></set>"
        return _envelope(f"<ListSets>{listed}</ListSets>")
    if verb == "ListMetadataFormats":
        described = (
            f"<metadataPrefix>{state.prefix}</metadataPrefix><schema>http://bench.example/x.xsd</schema>"
            f"<metadataNamespace>{_NAMESPACES[state.prefix]}</metadataNamespace>"
        )
        return _envelope(
            f"<ListMetadataFormats><metadataFormat>{described}</metadataFormat></ListMetadataFormats>"
        )
    return _envelope(identify(state.policy))


def _list(state: _State, verb: str, arguments: dict[str, str]) -> bytes:
    """Return a page that starts at the number in the token; the token is that number."""
    begin = int(arguments.get("resumptionToken", "0"))
    if begin >= state.records or arguments.get("from", "") > state.date:
        return _envelope('<error code="noRecordsMatch">none</error>')
    end = min(begin + PAGE, state.records)
    write = _record if verb == "ListRecords" else _header
    listed = "".join(write(state, number) for number in range(begin, end) if _is_listed(state, number))
    token = str(end) if end < state.records else ""
    return _envelope(f'<{verb}>{listed}<resumptionToken cursor="{begin}">{token}</resumptionToken></{verb}>')


def _is_gone(state: _State, number: int) -> bool:
    return state.gone and number % 2 == 1


def _is_listed(state: _State, number: int) -> bool:
    """Return whether the record is listed; only a repository with persistent deletions lists deleted ones."""
    return state.policy == "persistent" or not _is_gone(state, number)


def _header(state: _State, number: int) -> str:
    status = ' status="deleted"' if _is_gone(state, number) else ""
    return (
        f"<header{status}><identifier>oai:bench.example:{number % 97}:{number}</identifier>"
        f"<datestamp>{state.date}</datestamp><setSpec>{SET}</setSpec></header>"
    )


def _record(state: _State, number: int) -> str:
    if _is_gone(state, number):
        return f"<record>{_header(state, number)}</record>"
    made = _MAKERS[state.prefix](state, number)
    return f"<record>{_header(state, number)}<metadata>{made}</metadata></record>"


def _dublin_core(state: _State, number: int) -> str:
    return dublin_core(number, f"Record number {number} of a benchmark, version {state.version} ", 12)


def _marc21(state: _State, number: int) -> str:
    return marc_record(number).replace("XX-Bench", f"XX-Bench-{state.version}")


_MAKERS: Final = {"oai_dc": _dublin_core, "marc21": _marc21}


async def _serve() -> None:
    states: dict[str, _State] = {}

    def body_of(target: str, form: str) -> bytes:
        address = urlsplit(target)
        arguments = dict(parse_qsl(address.query or form))
        path, _, last = address.path.rpartition("/")
        state = states.setdefault(path if last == "state" else address.path, _State())
        if last == "state":
            state.change(arguments)
            return b""
        return _answer(state, arguments)

    await serve(body_of)


if __name__ == "__main__":
    asyncio.run(_serve())
