"""Records: identifiers, headers, metadata, deletions (specification, sections 2.4, 2.5 and 4.1)."""

import re
from collections.abc import Callable
from typing import Final

from lxml import etree

from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, DeletedRecord
from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.replies import Header, Record
from provider.checking.survey import CannotBeDoneError, NotApplicableError, Survey

LIST: Final = Checklist(subject="records")

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`]+")
_GET: Final = "verb=GetRecord&identifier={identifier}&metadataPrefix={prefix}"
_DC: Final = f"{{{DC_NAMESPACE}}}"
_DC_ROOT: Final = f"{{{OAI_DC_NAMESPACE}}}dc"
_ELEMENTS: Final = frozenset(
    f"{_DC}{name}"
    for name in (
        "title", "creator", "subject", "description", "publisher", "contributor", "date", "type", "format",
        "identifier", "source", "language", "relation", "coverage", "rights",
    )
)  # fmt: skip
_LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"


@LIST.add(
    "identifiers",
    "Identifiers are URIs",
    section="2.4",
    advice="Write identifiers as URIs, such as oai:library.example:123; spaces and < > are not allowed.",
)
def _identifiers(survey: Survey) -> Verdict:
    wrong = [name for name in survey.records.identifiers if not _URI.fullmatch(name)]
    return _of(survey, not wrong, "URIs", wrong[0] if wrong else "")


@LIST.add(
    "metadata",
    "A record that is not deleted has metadata with one element",
    section="2.5",
    advice="Put exactly one element, the root element of the format, into metadata.",
)
def _metadata(survey: Survey) -> Verdict:
    return _of_records(survey, lambda record: len(_roots(record)) != 1, "one element in metadata")


@LIST.add(
    "deleted-headers",
    "A deleted record has a header only",
    section="2.5.1",
    advice="Omit metadata and about in records with status=deleted.",
)
def _deleted_headers(survey: Survey) -> Verdict:
    expected = "no metadata in deleted records"
    return _of_records(survey, lambda record: record.metadata is not None, expected, deleted=True)


@LIST.add(
    "deleted-policy",
    "Deleted records occur only if deletedRecord allows them",
    section="2.5.1",
    advice="Identify declares that deletions are not reported (no): do not list any, or declare transient.",
)
def _deleted_policy(survey: Survey) -> Verdict:
    if survey.identified("deletedRecord") != DeletedRecord.NO:
        raise NotApplicableError("deletedRecord is not no")
    wrong = [header.identifier for header in _headers(survey) if header.deleted]
    return _of(survey, not wrong, "no deleted records", wrong[0] if wrong else "")


@LIST.add(
    "deleted-gettable",
    "GetRecord returns a deleted record that was listed",
    section="2.5.1",
    advice="Answer GetRecord for a deleted record with its header, not with idDoesNotExist.",
)
def _deleted_gettable(survey: Survey) -> Verdict:
    deleted = [header for header in _headers(survey) if header.deleted]
    if not deleted:
        raise NotApplicableError("no deleted record was found")
    reply = survey.client.get(
        (
            ("verb", "GetRecord"),
            ("identifier", deleted[0].identifier),
            ("metadataPrefix", survey.prefix),
        )
    )
    return verdict(
        [header.deleted for header in reply.headers] == [True], reply, expected="a header with status=deleted"
    )


@LIST.add(
    "get-header",
    "GetRecord returns the header that was listed",
    section="4.1",
    advice="Find out why identifier, datestamp or sets differ between the list and the single record.",
)
def _get_header(survey: Survey) -> Verdict:
    reply = survey.ask(_GET)
    same = [_comparable(header) for header in reply.headers] == [_comparable(survey.sample)]
    return verdict(same, reply, expected=str(survey.sample), came=str(reply.headers) if not same else "so")


@LIST.add(
    "get-metadata",
    "GetRecord returns the metadata that were listed",
    section="4.1",
    severity=Severity.SHOULD,
    advice="Create records the same way for GetRecord and for lists.",
)
def _get_metadata(survey: Survey) -> Verdict:
    reply = survey.ask(_GET)
    wanted = survey.sample.identifier
    listed = next((found for found in survey.records.records if found.header.identifier == wanted), None)
    single = next(reply.records, None)
    if listed is None or single is None:
        raise CannotBeDoneError("the record was not returned both ways")
    same = _canonical(single) == _canonical(listed)
    return verdict(same, reply, expected="the same metadata", came="so" if same else "others")


@LIST.add(
    "oai-dc-form",
    "oai_dc has only the fifteen Dublin Core elements",
    section="3.4",
    advice="Use only dc elements with text, and at most xml:lang, in oai_dc:dc; offer another format "
    "for more.",
)
def _oai_dc_form(survey: Survey) -> Verdict:
    if survey.prefix != "oai_dc":
        raise NotApplicableError("oai_dc is not offered")
    wrong = _first(survey, _dc_complaint)
    came = f"{wrong.header.identifier}: {_dc_complaint(wrong)}" if wrong else ""
    return _of(survey, not wrong, "elements of Dublin Core with text", came)


@LIST.add(
    "oai-dc-filled",
    "Metadata are not empty",
    section="2.5",
    severity=Severity.INFO,
    advice="Fill at least one element: harvesters cannot use empty records.",
)
def _oai_dc_filled(survey: Survey) -> Verdict:
    return _of_records(survey, lambda record: not "".join(_text(record)).strip(), "text in each record")


def _dc_complaint(record: Record) -> str | None:
    for root in _roots(record):
        if root.tag != _DC_ROOT:
            return f"the element {root.tag}"
        for element in root.iterchildren("*"):
            if element.tag not in _ELEMENTS:
                return f"the element {element.tag}"
            if len(element) or set(element.keys()) - {_LANGUAGE}:
                return f"elements or attributes in {etree.QName(element).localname}"
    return None


def _first(survey: Survey, is_wrong: Callable[[Record], object], *, deleted: bool = False) -> Record | None:
    """Return the first wrong record of those that are deleted, or of those that are not.

    Raises NotApplicableError if there are none of them.
    """
    found = False
    for record in survey.records.records:
        if record.header.deleted is deleted:
            found = True
            if is_wrong(record):
                return record
    if not found:
        raise NotApplicableError(
            f"{'no deleted record was' if deleted else 'only deleted records were'} found"
        )
    return None


def _headers(survey: Survey) -> list[Header]:
    return [header for walk in survey.item_walks for header in walk.headers]


def _roots(record: Record) -> list[etree._Element]:
    return [] if record.metadata is None else list(record.metadata.iterchildren("*"))


def _text(record: Record) -> list[str]:
    return ["".join(map(str, root.itertext())) for root in _roots(record)]


def _canonical(record: Record) -> list[str]:
    return [etree.canonicalize(_written(root), strip_text=True) for root in _roots(record)]


def _written(root: etree._Element) -> str:
    return etree.tostring(root, encoding="unicode", with_tail=False)


def _comparable(header: Header) -> tuple[str, str, frozenset[str], bool]:
    return header.identifier, header.datestamp, frozenset(header.set_specs), header.deleted


def _of_records(
    survey: Survey, is_wrong: Callable[[Record], object], expected: str, *, deleted: bool = False
) -> Verdict:
    wrong = _first(survey, is_wrong, deleted=deleted)
    return _of(survey, not wrong, expected, wrong.header.identifier if wrong else "")


def _of(survey: Survey, passed: object, expected: str, wrong: str) -> Verdict:
    page = survey.records.pages[0]
    return verdict(passed, page, expected=expected, came=wrong or survey.records.described())
