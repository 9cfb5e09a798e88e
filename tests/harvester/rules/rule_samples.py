"""Records and rule files shared by the tests of the rules."""

from lxml import etree

OAI = "http://www.openarchives.org/OAI/2.0/"
DC = "http://purl.org/dc/elements/1.1/"
OAI_DC = "http://www.openarchives.org/OAI/2.0/oai_dc/"
DECLARED = (
    f"<selectionNamespaces>xmlns:dc='{DC}' xmlns:oai='{OAI}' xmlns:oai_dc='{OAI_DC}'</selectionNamespaces>"
)
HEADER = "<identifier>oai:a.example:1</identifier><datestamp>2024-05-01</datestamp><setSpec>math</setSpec>"


def record_xml(content: str, *, header: str = HEADER, status: str = "", about: str = "") -> str:
    """Write a record in oai_dc around the given Dublin Core elements."""
    return (
        f'<record xmlns="{OAI}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><header{status}>{header}</header>'
        f'<metadata><oai_dc:dc xmlns:oai_dc="{OAI_DC}" xmlns:dc="{DC}" '
        f'xsi:schemaLocation="{OAI_DC} http://www.openarchives.org/OAI/2.0/oai_dc.xsd">'
        f"{content}</oai_dc:dc></metadata>{about}</record>"
    )


def record(content: str, **parts: str) -> etree._Element:
    """Return such a record as an element."""
    return etree.fromstring(record_xml(content, **parts))


def tombstone() -> etree._Element:
    """Return a deleted record."""
    return etree.fromstring(f'<record xmlns="{OAI}"><header status="deleted">{HEADER}</header></record>')


def list_of(*records: str) -> list[etree._Element]:
    """Return the records of an answer that contains them all."""
    root = etree.fromstring(f'<OAI-PMH xmlns="{OAI}"><ListRecords>{"".join(records)}</ListRecords></OAI-PMH>')
    return root.findall(f".//{{{OAI}}}record")
