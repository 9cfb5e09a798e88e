"""Read the metadata in a stored record's file safely."""

import hashlib
from pathlib import Path

from lxml import etree

from harvester.bibliographic.candidates import Candidate
from oai.errors import MalformedXmlError, ZatvaError
from oai.vocabulary import OAI_NAMESPACE
from oai.xml import parse

_METADATA = f"{{{OAI_NAMESPACE}}}metadata"


class UnreadableFileError(ZatvaError):
    """A record's file that is missing, was altered, or is not XML; the error may be temporary."""


class NoMetadataError(ZatvaError):
    """A record's file without metadata."""


def read_metadata(folder: Path, candidate: Candidate) -> etree._Element:
    """Return the root element of the record's metadata.

    Raises UnreadableFileError and NoMetadataError; both name the file and the problem.
    """
    if candidate.filename is None:
        raise UnreadableFileError("the record has no file; harvest it again")
    try:
        # Read in one piece and unbuffered, because there are many files.
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
