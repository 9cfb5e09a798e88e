"""What an SRU server explains of itself: who it is, its version, its schemas, how much it gives at once.

Source: ZeeRex, the explain DTD 2.0 and 2.1 (explain.z3950.org); SRU 1.2, "Explain".
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from harvester.reading.answers import FormatInfo
from harvester.reading.errors import MalformedAnswerError
from harvester.sru.answers import child, child_text, local_name, open_answer, record_data
from oai.errors import MalformedXmlError


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What explain says; empty where it does not."""

    title: str = ""
    contact: str = ""
    version: str = ""
    schemas: tuple[FormatInfo, ...] = ()
    """`metadata_prefix` is the schema's short name, `namespace` its identifier."""
    most_at_once: int | None = None


def read_explanation(body: bytes, *, url: str, content_type: str = "") -> Explanation:
    """Read an answer to explain. Raises MalformedAnswerError and NotSruError."""
    root = open_answer(body, "explainResponse", url=url, content_type=content_type)
    record = child(root, "record")
    try:
        explain = None if record is None else record_data(record, source=url)
    except MalformedXmlError as error:
        raise MalformedAnswerError(url, f"the explain record is not XML: {error.reason}") from None
    if explain is None:
        raise MalformedAnswerError(url, "the answer has no explain record")
    server = child(explain, "serverInfo")
    database = child(explain, "databaseInfo")
    return Explanation(
        title="" if database is None else child_text(database, "title"),
        contact="" if database is None else child_text(database, "contact"),
        version=child_text(root, "version") or ("" if server is None else server.get("version", "")),
        schemas=tuple(_schemas(explain)),
        most_at_once=_most_at_once(explain),
    )


def _schemas(explain: etree._Element) -> Iterator[FormatInfo]:
    for schema in explain.iter(etree.Element):
        name = schema.get("name", "")
        if local_name(schema) == "schema" and name and schema.get("retrieve", "true") != "false":
            yield FormatInfo(
                metadata_prefix=name,
                schema=schema.get("location", ""),
                namespace=schema.get("identifier", ""),
            )


def _most_at_once(explain: etree._Element) -> int | None:
    for setting in explain.iter(etree.Element):
        text = (setting.text or "").strip()
        if setting.get("type") == "maximumRecords" and text.isascii() and text.isdigit() and int(text[:9]):
            return int(text[:9])
    return None
