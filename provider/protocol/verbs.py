"""The handlers of the six verbs: a checked request in, the answer's content out (OAI-PMH 2.0, section 4)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from oai.errors import ProtocolError
from oai.vocabulary import ErrorCode, Verb
from provider.holdings.identifiers import parse_oai_identifier
from provider.protocol import answers
from provider.protocol.exchange import Content, Exchange
from provider.protocol.identify import identify
from provider.protocol.items import Item
from provider.protocol.lists import list_identifiers, list_records, list_sets
from provider.protocol.pages import item_by_key
from provider.protocol.requests import shown, unknown_format


def get_record(exchange: Exchange) -> Content:
    """One item in one format (section 4.1)."""
    arguments = exchange.request.arguments
    format_ = exchange.formats.get(arguments["metadataPrefix"])
    item = _find_item(exchange, arguments["identifier"])
    faults = []
    if format_ is None:
        faults.append(unknown_format(arguments["metadataPrefix"]))
    if item is None:
        faults.append(_unknown_item(arguments["identifier"]))
    if format_ is None or item is None:
        raise exchange.request.refusal(*faults)
    record = answers.record(item, exchange.site, format_)
    return Content(xml=answers.verb_element(Verb.GET_RECORD, [record]))


def list_metadata_formats(exchange: Exchange) -> Content:
    """The formats that there are, for all items or for one (section 4.4)."""
    identifier = exchange.request.arguments.get("identifier")
    if identifier is not None and _find_item(exchange, identifier) is None:
        raise exchange.request.refusal(_unknown_item(identifier))
    base_url = exchange.site.base_url
    elements = [answers.metadata_format(format_, base_url) for format_ in exchange.formats.values()]
    return Content(xml=answers.verb_element(Verb.LIST_METADATA_FORMATS, elements))


def _find_item(exchange: Exchange, identifier: str) -> Item | None:
    key = parse_oai_identifier(exchange.settings.namespace, identifier)
    return None if key is None else item_by_key(exchange.session, key, exchange.moment)


def _unknown_item(identifier: str) -> ProtocolError:
    return ProtocolError(
        ErrorCode.ID_DOES_NOT_EXIST, f"there is no item with the identifier {shown(identifier)}"
    )


HANDLERS: Mapping[Verb, Callable[[Exchange], Content]] = MappingProxyType(
    {
        Verb.GET_RECORD: get_record,
        Verb.IDENTIFY: identify,
        Verb.LIST_IDENTIFIERS: list_identifiers,
        Verb.LIST_METADATA_FORMATS: list_metadata_formats,
        Verb.LIST_RECORDS: list_records,
        Verb.LIST_SETS: list_sets,
    }
)
"""Each raises RefusedRequestError for what the data do not allow."""
