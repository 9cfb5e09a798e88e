"""The handlers of the six verbs: from a checked request to the answer's content (OAI-PMH 2.0, section 4)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from oai.errors import ProtocolError
from oai.vocabulary import ErrorCode, Verb
from provider.protocol import answers
from provider.protocol.exchange import Content, Exchange
from provider.protocol.identify import identify
from provider.protocol.lists import list_identifiers, list_records, list_sets
from provider.protocol.requests import shown, unknown_format


def get_record(exchange: Exchange) -> Content:
    """Return one item in one format (section 4.1)."""
    identifier, prefix = (exchange.request.arguments[name] for name in ("identifier", "metadataPrefix"))
    item = exchange.catalogue.item(exchange.session, identifier, exchange.moment)
    faults = []
    if not exchange.catalogue.has_format(exchange.session, prefix):
        faults.append(unknown_format(prefix))
    if item is None:
        faults.append(_unknown_item(identifier))
    record = None if item is None or faults else item.record(prefix)
    if record is None:
        raise exchange.request.refusal(*faults or [_not_in_format(identifier, prefix)])
    return Content(xml=answers.verb_element(Verb.GET_RECORD, [record]))


def list_metadata_formats(exchange: Exchange) -> Content:
    """Return the formats of the repository or of one item (section 4.4)."""
    identifier = exchange.request.arguments.get("identifier")
    if identifier is None:
        formats = exchange.catalogue.formats(exchange.session)
    else:
        item = exchange.catalogue.item(exchange.session, identifier, exchange.moment)
        if item is None:
            raise exchange.request.refusal(_unknown_item(identifier))
        formats = item.formats()
    elements = [answers.metadata_format(format_) for format_ in formats]
    return Content(xml=answers.verb_element(Verb.LIST_METADATA_FORMATS, elements))


def _unknown_item(identifier: str) -> ProtocolError:
    return ProtocolError(ErrorCode.ID_DOES_NOT_EXIST, f"no item has the identifier {shown(identifier)}")


def _not_in_format(identifier: str, prefix: str) -> ProtocolError:
    return ProtocolError(
        ErrorCode.CANNOT_DISSEMINATE_FORMAT,
        f"{shown(identifier)} is not available as {shown(prefix)}; see ListMetadataFormats with "
        "this identifier",
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
"""Each raises RefusedRequestError for errors found in the data."""
