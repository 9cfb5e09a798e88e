"""The handlers of the six verbs: a checked request in, the answer's content out (OAI-PMH 2.0, section 4)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from oai.errors import ProtocolError
from oai.vocabulary import ErrorCode, Verb
from provider import answers
from provider.exchange import Exchange
from provider.formats import FORMATS
from provider.identifiers import parse_oai_identifier
from provider.identify import identify
from provider.items import Item
from provider.lists import list_identifiers, list_records, list_sets
from provider.pages import item_by_key
from provider.requests import shown, unknown_format


def get_record(exchange: Exchange) -> str:
    """One item in one format (section 4.1)."""
    arguments = exchange.request.arguments
    format_ = FORMATS.get(arguments["metadataPrefix"])
    item = _find_item(exchange, arguments["identifier"])
    faults = []
    if format_ is None:
        faults.append(unknown_format(arguments["metadataPrefix"]))
    if item is None:
        faults.append(_unknown_item(arguments["identifier"]))
    if format_ is None or item is None:
        raise exchange.request.refusal(*faults)
    return answers.verb_element(Verb.GET_RECORD, [answers.record(item, exchange.settings.namespace, format_)])


def list_metadata_formats(exchange: Exchange) -> str:
    """The formats that there are, for all items or for one (section 4.4)."""
    identifier = exchange.request.arguments.get("identifier")
    if identifier is not None and _find_item(exchange, identifier) is None:
        raise exchange.request.refusal(_unknown_item(identifier))
    return answers.verb_element(Verb.LIST_METADATA_FORMATS, map(answers.metadata_format, FORMATS.values()))


def _find_item(exchange: Exchange, identifier: str) -> Item | None:
    key = parse_oai_identifier(exchange.settings.namespace, identifier)
    return None if key is None else item_by_key(exchange.session, key, exchange.moment)


def _unknown_item(identifier: str) -> ProtocolError:
    return ProtocolError(
        ErrorCode.ID_DOES_NOT_EXIST, f"there is no item with the identifier {shown(identifier)}"
    )


HANDLERS: Mapping[Verb, Callable[[Exchange], str]] = MappingProxyType(
    {
        Verb.GET_RECORD: get_record,
        Verb.IDENTIFY: identify,
        Verb.LIST_IDENTIFIERS: list_identifiers,
        Verb.LIST_METADATA_FORMATS: list_metadata_formats,
        Verb.LIST_RECORDS: list_records,
        Verb.LIST_SETS: list_sets,
    }
)
"""Each gives the element named as its verb, or raises RefusedRequestError."""
