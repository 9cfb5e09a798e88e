"""Stored records are published with all their namespace declarations; files of other records are refused."""

from pathlib import Path

import pytest
from lxml import etree

from oai.vocabulary import REPAIRED_NAMESPACE
from provider.aggregate.stored_records import (
    UnreadableRecordError,
    metadata_vocabulary,
    read_stored,
    within_answer,
)

OAI = "http://www.openarchives.org/OAI/2.0/"
HEADER = "<header><identifier>oai:x:1</identifier><datestamp>2024-01-01</datestamp></header>"


def stored(folder: Path, text: str) -> str:
    """The metadata of a file with this text, as an answer has them."""
    (folder / "1.xml").write_text(text, encoding="utf-8")
    return read_stored(folder, "1.xml", "oai:x:1").metadata


def content(metadata: str) -> etree._Element:
    """The content of the metadata in an answer."""
    answer = etree.fromstring(f'<a xmlns="{OAI}" xmlns:xsi="urn:xsi">{metadata}</a>')
    return answer[0][0]


def test_prefixes_declared_on_the_record_element_are_kept(tmp_path: Path) -> None:
    found = content(
        stored(
            tmp_path,
            f'<record xmlns="{OAI}" xmlns:q="urn:q">{HEADER}'
            '<metadata><p:r xmlns:p="urn:p" a="q:x"/></metadata></record>',
        )
    )
    assert found.nsmap["q"] == "urn:q"
    assert found.tag == "{urn:p}r"


def test_declarations_of_the_response_root_are_not_repeated_in_the_metadata(tmp_path: Path) -> None:
    xsi = "http://www.w3.org/2001/XMLSchema-instance"
    record = '<r xmlns="urn:r" xsi:schemaLocation="urn:r r.xsd"/>'
    opening = f'<record xmlns="{OAI}" xmlns:xsi="{xsi}" xmlns:q="urn:q">'
    found = within_answer(stored(tmp_path, f"{opening}{HEADER}<metadata>{record}</metadata></record>"))
    assert found == f'<metadata xmlns:q="urn:q">{record}</metadata>'


@pytest.mark.parametrize("repaired", [True, False])
def test_a_repaired_record_is_recognised_by_its_about_element(tmp_path: Path, repaired: bool) -> None:  # noqa: FBT001 a parameter
    mark = f'<about><repaired xmlns="{REPAIRED_NAMESPACE}">ampersand</repaired></about>' if repaired else ""
    stored(tmp_path, f'<record xmlns="{OAI}">{HEADER}<metadata><r xmlns=""/></metadata>{mark}</record>')
    assert read_stored(tmp_path, "1.xml", "oai:x:1").repaired is repaired


@pytest.mark.parametrize("inner", ["<r/>", '<r xmlns=""/>'])
def test_elements_without_a_namespace_get_none(tmp_path: Path, inner: str) -> None:
    header = HEADER.replace("</", "</o:").replace("<h", "<o:h").replace("<i", "<o:i").replace("<d", "<o:d")
    text = f'<o:record xmlns:o="{OAI}">{header}<o:metadata>{inner}</o:metadata></o:record>'
    assert content(stored(tmp_path, text)).tag == "r"
    plain = f'<record xmlns="{OAI}">{HEADER}<metadata><r xmlns=""/></metadata></record>'
    assert content(stored(tmp_path, plain)).tag == "r"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'<record xmlns="{OAI}">{HEADER}</record>', "no metadata"),
        (f'<record xmlns="{OAI}">{HEADER.replace("x:1", "x:2")}<metadata/></record>', "the record 'oai:x:2'"),
        ("<record", "line 1"),
        ('<!DOCTYPE r [<!ENTITY e "x">]><r>&e;</r>', "DOCTYPE"),
    ],
)
def test_a_file_without_the_expected_record_is_refused_with_name_and_reason(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(UnreadableRecordError, match=words) as caught:
        stored(tmp_path, text)
    assert "1.xml" in str(caught.value)


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "1.xml").touch()
    with pytest.raises(UnreadableRecordError, match=r"gone\.xml: No such file"):
        read_stored(tmp_path, "gone.xml", "oai:x:1")


def test_namespace_and_schema_are_read_from_the_metadata_root(tmp_path: Path) -> None:
    location = (
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="urn:o o.xsd urn:p p.xsd"'
    )
    stored(
        tmp_path,
        f'<record xmlns="{OAI}">{HEADER}<metadata><r xmlns="urn:p" {location}/></metadata></record>',
    )
    assert metadata_vocabulary(tmp_path, "1.xml", "oai:x:1") == ("urn:p", "p.xsd")
