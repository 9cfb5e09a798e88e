"""What can be requested from a repository: the differences of the protocols, as data.

Pages, plans and checks read it here, so that a new protocol is a new client and a new entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harvester.client.transport import Arguments, request_url
from harvester.vocabulary import AccessProtocol
from oai.errors import UsageError, required
from oai.vocabulary import Verb

_LONGEST_SET: Final = 1000
"""Characters. Set names in use may violate the schema, for example by blanks; they are accepted."""
_LONGEST_QUERY: Final = 4096
"""Bytes."""
_PART: Final = ("metadataPrefix", "set", "resumptionToken")


class SelectionError(UsageError):
    """The selection is neither an OAI-PMH set nor a query, or dates are given for a protocol with queries."""


@dataclass(frozen=True, kw_only=True)
class QueryLanguage:
    """The language of queries, which replace OAI-PMH's sets."""

    name: str
    example: str
    everything: bool
    """Whether a request without a query selects all records."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A request that a person may send to a repository by itself."""

    name: str
    """Its name in the protocol."""
    takes: tuple[str, ...] = ()
    """Its arguments, under their OAI-PMH names."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """What can be requested from repositories of a protocol."""

    protocol: AccessProtocol
    title: str
    questions: Mapping[Verb, Question]
    """The requests, by the equivalent OAI-PMH verb."""
    usual_format: str = "oai_dc"
    query: QueryLanguage | None = None
    """The query language; None if sets and datestamps select."""
    greeting: Arguments | None = None
    """Arguments with which a browser may open a base URL; None if browsers do not support the protocol."""

    def page_of(self, base_url: str) -> str | None:
        """Return an address at which a browser shows the repository's description."""
        return None if self.greeting is None else request_url(base_url, self.greeting)

    def check(self, set_spec: str | None) -> None:
        """Raise SelectionError if no list can be requested with this set or query."""
        wanted = set_spec or ""
        if self.query is None:
            if len(wanted) > _LONGEST_SET or not wanted.isprintable():
                raise SelectionError(
                    "a setSpec is one line of at most %(most)s characters; choose a set that the "
                    "repository lists",
                    most=_LONGEST_SET,
                )
            return
        if not wanted.strip() and not self.query.everything:
            raise SelectionError(
                "%(protocol)s cannot request all records; give a query in %(language)s, such as %(example)s",
                **self._words(),
            )
        if not wanted.isprintable():
            raise SelectionError("the query contains control characters; write it on one line")
        if len(wanted.encode()) > _LONGEST_QUERY:
            raise SelectionError("the query is too long; give at most %(most)s bytes", most=_LONGEST_QUERY)

    def check_dates(self, *given: object) -> None:
        """Raise SelectionError if a datestamp bound, or slicing, is given without effect."""
        if self.query is not None and any(given):
            raise SelectionError(
                "%(protocol)s selects by query, not by datestamps; remove dates and slices",
                protocol=self.title,
            )

    def _words(self) -> dict[str, str]:
        query = required(self.query, "only protocols with queries ask")
        return {"protocol": self.title, "language": query.name, "example": query.example}


_OAI_PMH: Final = Access(
    protocol=AccessProtocol.OAI_PMH,
    title="OAI-PMH",
    questions={
        verb: Question(name=verb.value, takes=takes)
        for verb, takes in (
            (Verb.IDENTIFY, ()),
            (Verb.LIST_METADATA_FORMATS, ("identifier",)),
            (Verb.LIST_SETS, ("resumptionToken",)),
            (Verb.LIST_IDENTIFIERS, ("metadataPrefix", "set", "from", "until", "resumptionToken")),
            (Verb.LIST_RECORDS, ("metadataPrefix", "set", "from", "until", "resumptionToken")),
            (Verb.GET_RECORD, ("identifier", "metadataPrefix")),
        )
    },
    greeting=(("verb", "Identify"),),
)
"""The arguments are those of the specification, section 4."""

_SRU: Final = Access(
    protocol=AccessProtocol.SRU,
    title="SRU",
    questions={
        Verb.IDENTIFY: Question(name="explain"),
        Verb.LIST_RECORDS: Question(name="searchRetrieve", takes=_PART),
    },
    query=QueryLanguage(name="CQL", example='dc.title="water"', everything=True),
    greeting=(("operation", "explain"), ("version", "1.2")),
)

_Z3950: Final = Access(
    protocol=AccessProtocol.Z3950,
    title="Z39.50",
    questions={
        Verb.IDENTIFY: Question(name="init"),
        Verb.LIST_RECORDS: Question(name="search", takes=_PART),
    },
    usual_format="marcxml",
    query=QueryLanguage(name="PQF", example='@attr 1=4 "water"', everything=False),
)

ACCESSES: Final[Mapping[AccessProtocol, Access]] = {one.protocol: one for one in (_OAI_PMH, _SRU, _Z3950)}


def access_of(protocol: str) -> Access:
    """Return what can be requested from repositories of the protocol."""
    return ACCESSES[AccessProtocol(protocol)]
