"""What a repository can be asked for: the differences of the protocols, as data (BIB-4).

Pages, plans and checks read it here, so that a new protocol is a new client and a new entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from harvester.client.transport import Arguments, request_url
from harvester.vocabulary import AccessProtocol
from oai.errors import UsageError, required
from oai.vocabulary import Verb

_LONGEST_SET: Final = 1000
"""Characters. Repositories have sets whose names no schema allows, with blanks, too; they know best."""
_LONGEST_QUERY: Final = 4096
"""Bytes."""
_PART: Final = ("metadataPrefix", "set", "resumptionToken")


class SelectionError(UsageError):
    """What is to be selected is no set of OAI-PMH or no query, or dates are to select where a query does."""


@dataclass(frozen=True, kw_only=True)
class QueryLanguage:
    """The language of queries, which stand where OAI-PMH has sets."""

    name: str
    example: str
    everything: bool
    """Whether all records are asked for where there is no query."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that a person may put to a repository by itself."""

    name: str
    """As the protocol calls it."""
    takes: tuple[str, ...] = ()
    """Its arguments, as OAI-PMH calls them."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """What repositories of a protocol can be asked for."""

    protocol: AccessProtocol
    title: str
    questions: Mapping[Verb, Question]
    """By the verb of OAI-PMH that it stands for."""
    usual_format: str = "oai_dc"
    query: QueryLanguage | None = None
    """None where sets and datestamps select."""
    greeting: Arguments | None = None
    """What a browser may ask a base URL; None where browsers do not speak the protocol."""

    def page_of(self, base_url: str) -> str | None:
        """An address at which a browser sees what the repository is."""
        return None if self.greeting is None else request_url(base_url, self.greeting)

    def check(self, set_spec: str | None) -> None:
        """Raise SelectionError where no list can be asked for by this set or query."""
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
        """Raise SelectionError where a bound of datestamps, or slicing, is given and means nothing."""
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
    questions=MappingProxyType(
        {
            verb: Question(name=verb.value, takes=takes)
            for verb, takes in (
                (Verb.IDENTIFY, ()),
                (Verb.LIST_METADATA_FORMATS, ("identifier",)),
                (Verb.LIST_SETS, ("resumptionToken",)),
                (Verb.LIST_IDENTIFIERS, ("metadataPrefix", "set", "from", "until", "resumptionToken")),
                (Verb.LIST_RECORDS, ("metadataPrefix", "set", "from", "until", "resumptionToken")),
                (Verb.GET_RECORD, ("identifier", "metadataPrefix")),
            )
        }
    ),
    greeting=(("verb", "Identify"),),
)
"""The arguments are those of the specification, section 4."""

_SRU: Final = Access(
    protocol=AccessProtocol.SRU,
    title="SRU",
    questions=MappingProxyType(
        {
            Verb.IDENTIFY: Question(name="explain"),
            Verb.LIST_RECORDS: Question(name="searchRetrieve", takes=_PART),
        }
    ),
    query=QueryLanguage(name="CQL", example='dc.title="water"', everything=True),
    greeting=(("operation", "explain"), ("version", "1.2")),
)

_Z3950: Final = Access(
    protocol=AccessProtocol.Z3950,
    title="Z39.50",
    questions=MappingProxyType(
        {
            Verb.IDENTIFY: Question(name="init"),
            Verb.LIST_RECORDS: Question(name="search", takes=_PART),
        }
    ),
    usual_format="marcxml",
    query=QueryLanguage(name="PQF", example='@attr 1=4 "water"', everything=False),
)

ACCESSES: Final[Mapping[AccessProtocol, Access]] = MappingProxyType(
    {one.protocol: one for one in (_OAI_PMH, _SRU, _Z3950)}
)


def access_of(protocol: str) -> Access:
    """What repositories of the protocol can be asked for."""
    return ACCESSES[AccessProtocol(protocol)]
