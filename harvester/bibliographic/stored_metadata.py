"""The metadata in a stored record's file, read safely."""

import hashlib
from pathlib import Path

from lxml import etree

from harvester.bibliographic.candidates import Candidate
from oai.errors import MalformedXmlError, ZatvaError
from oai.vocabulary import OAI_NAMESPACE
from oai.xml import parse

_METADATA = f"{{{OAI_NAMESPACE}}}metadata"


class UnreadableFileError(ZatvaError):
    """A record's file that is not there, not as it was written, or not XML; another time it may be."""


class NoMetadataError(ZatvaError):
    """A record's file in which there is no metadata."""


def read_metadata(folder: Path, candidate: Candidate) -> etree._Element:
    """The root element of the record's metadata.

    Raises UnreadableFileError and NoMetadataError; both say which file, and what is the matter.
    """
    if candidate.filename is None:
        raise UnreadableFileError("the record has no file; harvest it again")
    try:
        # In one piece and unbuffered, for there are many of them.
        with open(f"{folder}/{candidate.filename}", "rb", buffering=0) as file:  # noqa: PTH123
            data = file.read()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UnreadableFileError(
            f"{candidate.filename}: {reason}; for details, run `zatva store verify`"
        ) from None
    if candidate.digest is not None and hashlib.sha256(data).digest() != candidate.digest:
        raise UnreadableFileError(f"{candidate.filename}: its contents differ from what was stored")
    try:
        root = parse(data, source=candidate.filename)
    except MalformedXmlError as error:
        raise UnreadableFileError(str(error)) from None
    metadata = root.find(_METADATA)
    found = None if metadata is None else next(metadata.iterchildren(etree.Element), None)
    if found is None:
        raise NoMetadataError(f"{candidate.filename}: no element in <metadata>")
    return found
