"""Reads the parts of a list: a record, a header, a token (specification, sections 2.5 and 3.5)."""

from typing import Final

from lxml import etree

from harvester.reading.answers import Header, Record, ResumptionToken
from harvester.reading.envelope import OAI, text_of
from harvester.reading.errors import PartError
from oai.failures import FailureCode

RECORD = OAI + "record"
HEADER = OAI + "header"
TOKEN = OAI + "resumptionToken"
_IDENTIFIER = OAI + "identifier"
_DATESTAMP = OAI + "datestamp"
_SET_SPEC = OAI + "setSpec"
_METADATA = OAI + "metadata"
_ABOUT = OAI + "about"
_WHOLE = [HEADER, _METADATA]
LONGEST_SPEC: Final = 1000
"""Bytes of a setSpec, or of a format's declaration, in UTF-8; indexes of the database hold no longer ones."""


def is_too_long(spec: str) -> bool:
    """Return whether a setSpec, or the texts of a format joined, is too long to be stored."""
    return len(spec.encode()) > LONGEST_SPEC


def read_record(element: etree._Element) -> Record:
    """Return the record. Raises PartError that says what is wrong with it."""
    # The tag of a comment or an instruction is a function.
    children = [child for child in element if not callable(child.tag)]
    tags = [child.tag for child in children]
    if HEADER not in tags:
        raise PartError("a record without a header", FailureCode.RECORD_HEADER)
    header = read_header(children[tags.index(HEADER)])
    if tags != _WHOLE and not _is_made_of_known_parts(tags):
        raise PartError(f"record {header.identifier!r} does not consist of header, metadata and about")
    if not header.deleted and (len(tags) == 1 or not len(children[1])):
        reason = f"record {header.identifier!r} has no metadata and is not deleted"
        raise PartError(reason, FailureCode.RECORD_METADATA_MISSING)
    return Record(header=header, element=element)


def _is_made_of_known_parts(tags: list[str]) -> bool:
    return tags[0] == HEADER and tags[1:2] in ([], [_METADATA]) and not set(tags[2:]) - {_ABOUT}


def read_header(element: etree._Element) -> Header:
    """Return the header. Raises PartError that says what is wrong with it.

    Without a datestamp it is `undated`; strict reading rejects it before (`strictness.check_header`).
    """
    identifier = datestamp = ""
    set_specs: list[str] = []
    for child in element:
        tag = child.tag
        text = text_of(child) if len(child) else (child.text or "").strip()
        if tag == _IDENTIFIER:
            identifier = text
        elif tag == _DATESTAMP:
            datestamp = text
        elif tag == _SET_SPEC and text:
            set_specs.append(text)
    if not identifier:
        raise PartError("a header without an identifier", FailureCode.RECORD_HEADER)
    if any(is_too_long(spec) for spec in set_specs):
        reason = f"a setSpec of more than {LONGEST_SPEC:,} bytes in the header of record {identifier!r}"
        raise PartError(reason, FailureCode.RECORD_HEADER)
    deleted = (element.get("status") or "").strip().lower() == "deleted"
    return Header(
        identifier=identifier,
        datestamp=datestamp,
        set_specs=tuple(set_specs),
        deleted=deleted,
        undated=not datestamp,
    )


def read_token(element: etree._Element) -> ResumptionToken:
    """Return the token; non-numeric attributes are omitted, because servers write various things there.

    Raises ValueError if it contains other elements.
    """
    return ResumptionToken(
        value=text_of(element),
        cursor=_number(element.get("cursor")),
        complete_list_size=_number(element.get("completeListSize")),
        expiration_date=element.get("expirationDate"),
    )


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None  # noqa: PLR2004 bigint
