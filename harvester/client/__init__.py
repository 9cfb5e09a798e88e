"""A stand-alone OAI-PMH client; needs no database, no manager and no files. Start with `open_client`."""

from harvester.client.listing import Listing, Progress
from harvester.client.politeness import Politeness
from harvester.client.repository_client import Client, Traffic, open_client
from harvester.client.selection import Selection
from harvester.client.transport import HttpReply, Transport
from harvester.reading.answers import (
    Fault,
    FormatInfo,
    FormatPage,
    Header,
    Identity,
    Page,
    Record,
    ResumptionToken,
    SetInfo,
    SetPage,
)
from harvester.reading.errors import (
    AnswerTooLargeError,
    BadArgumentError,
    BadResumptionTokenError,
    BadVerbError,
    CannotDisseminateFormatError,
    ClientError,
    EndlessListError,
    HttpStatusError,
    IdDoesNotExistError,
    MalformedAnswerError,
    NoMetadataFormatsError,
    NoRecordsMatchError,
    NoSetHierarchyError,
    NotOaiPmhError,
    OaiError,
    ServerBusyError,
    TransportError,
    TransportKind,
)
from oai.errors import TryLaterError
from oai.sections import HarvesterSettings
from oai.vocabulary import Verb

__all__ = [
    "AnswerTooLargeError",
    "BadArgumentError",
    "BadResumptionTokenError",
    "BadVerbError",
    "CannotDisseminateFormatError",
    "Client",
    "ClientError",
    "EndlessListError",
    "Fault",
    "FormatInfo",
    "FormatPage",
    "HarvesterSettings",
    "Header",
    "HttpReply",
    "HttpStatusError",
    "IdDoesNotExistError",
    "Identity",
    "Listing",
    "MalformedAnswerError",
    "NoMetadataFormatsError",
    "NoRecordsMatchError",
    "NoSetHierarchyError",
    "NotOaiPmhError",
    "OaiError",
    "Page",
    "Politeness",
    "Progress",
    "Record",
    "ResumptionToken",
    "Selection",
    "ServerBusyError",
    "SetInfo",
    "SetPage",
    "Traffic",
    "Transport",
    "TransportError",
    "TransportKind",
    "TryLaterError",
    "Verb",
    "open_client",
]
