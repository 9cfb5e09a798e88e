"""A type is recognised by the first bytes if the declared one is missing, general or wrong."""

import io
import zipfile
from collections.abc import Sequence

import pytest

from provider.reading.type_recognition import recognise, recognised_type


def packed(*names: str, kind: str = "") -> bytes:
    """A zip file; a type comes first, as OpenDocument and EPUB require."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in (*(["mimetype"] if kind else []), *names):
            archive.writestr(name, kind if name == "mimetype" else "<x/>" * 20)
    return file.getvalue()


OFFICE = "application/vnd.openxmlformats-officedocument"
ODT, EPUB = "application/vnd.oasis.opendocument.text", "application/epub+zip"
XML = b'<?xml version="1.0" encoding="utf-8"?>\n<!-- <svg> -->\n'
CONTENT: Sequence[tuple[bytes, str | None]] = (
    (b"%PDF-1.4\n%\xe2\xe3\xcf\xd3", "application/pdf"),
    (b"%!PS-Adobe-3.0\n", "application/postscript"),
    (rb"{\rtf1\ansi hello}", "application/rtf"),
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
    (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
    (b"GIF89a\1\0\1\0", "image/gif"),
    (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
    (b"BM\x76\0\0\0\0\0\0\0\x36\0", "image/bmp"),
    (b"\0\0\1\0\1\0\x10\x10", "image/x-icon"),
    (b"II*\0\x08\0\0\0", "image/tiff"),
    (b"\0\0\0\x1cftypavif", "image/avif"),
    (b"\0\0\0\x20ftypisom", "video/mp4"),
    (b"\x1aE\xdf\xa3\x9fB\x86\x81\1B\x82\x84webm", "video/webm"),
    (b"ID3\3\0\0\0", "audio/mpeg"),
    (b"\xff\xfb\x90\x64", "audio/mpeg"),
    (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wave"),
    (b"OggS\0\2", "application/ogg"),
    (b"CWS\x0a\1", "application/x-shockwave-flash"),
    (b"wOF2\0\1\0\0", "font/woff2"),
    (b"\0\1\0\0\0\x10", "font/ttf"),
    (b"\x1f\x8b\x08\0", "application/gzip"),
    (b"\0" * 257 + b"ustar\0", "application/x-tar"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (packed("a.txt", "word/a.txt"), "application/zip"),
    (packed("[Content_Types].xml", "_rels/.rels", "word/x.xml"), f"{OFFICE}.wordprocessingml.document"),
    (packed("_rels/.rels", "xl/workbook.xml"), f"{OFFICE}.spreadsheetml.sheet"),
    (packed("[Content_Types].xml", "unknown/part.xml"), "application/zip"),
    (packed("a.xml", kind=ODT), ODT),
    (packed("a.xml", kind=EPUB), EPUB),
    (b"\n <!DOCTYPE HTML><title>x</title>", "text/html"),
    (b"\xef\xbb\xbf<html><body>", "text/html"),
    (b"<pre>no tag of the standard's table", "text/plain"),
    (XML + b'<html xmlns="http://www.w3.org/1999/xhtml">', "application/xhtml+xml"),
    (XML + b'<rdf:RDF xmlns:rdf="x">', "application/rdf+xml"),
    (XML + b"<rss>", "application/rss+xml"),
    (XML + b"<records>", "text/xml"),
    (XML + b"<!DOCTYPE svg [<!ENTITY a 'b'>]>\n<svg>", "image/svg+xml"),
    (XML + b"<!-- never ends <html>" * 300, "text/xml"),
    (b'<svg xmlns="http://www.w3.org/2000/svg">', "image/svg+xml"),
    ("Příliš žluťoučký kůň".encode("cp1250"), "text/plain"),
    ("﻿Příliš".encode("utf-16"), "text/plain"),
    ("\n<!DOCTYPE html><title>Žluť</title>".encode("utf-16"), "text/html"),
    ("\ufeff<?xml version='1.0'?><rss>".encode("utf-16-be"), "application/rss+xml"),
    ("\ufeff \n".encode("utf-16-le"), None),
    (bytes(range(256)), None),
    (b"", None),
)  # fmt: skip


@pytest.mark.parametrize(("content", "found"), CONTENT)
def test_a_type_is_recognised_by_its_signature(content: bytes, found: str | None) -> None:
    assert recognise(content) == found


@pytest.mark.parametrize("cut", range(1, 60, 3))
def test_any_truncated_beginning_is_handled_without_error(cut: int) -> None:
    for content, _ in CONTENT:
        recognise(content[:cut])


PDF, PAGE, PNG = CONTENT[0][0], b"<html><title>x</title>", CONTENT[3][0]


@pytest.mark.parametrize(
    ("declared", "content", "found"),
    [
        (None, PDF, "application/pdf"),
        ("", PAGE, "text/html"),
        ("unknown/unknown", PNG, "image/png"),
        ("application/octet-stream", PNG, "image/png"),
        ("application/octet-stream; charset=binary", PNG, "image/png"),
        ("application/octet-stream", bytes(range(256)), None),
        ("text", PAGE, "text/html"),
        ("text/html", PDF, "application/pdf"),
        ("text/html; charset=utf-8", PNG, "image/png"),
        ("text/plain", PNG, "image/png"),
        # Text that the server declares as another type stays so: a feed may be served as plain text.
        ("text/plain", PAGE, None),
        ("text/html", XML + b"<rss>", None),
        ("text/html", PAGE, None),
        ("text/html", "<p>x".encode("utf-16"), None),
        # Other types are specific, so the declaration is kept.
        ("application/msword", PDF, None),
        ("image/jpeg", PNG, None),
        (None, b"", None),
    ],
)
def test_only_a_doubtful_type_is_replaced(declared: str | None, content: bytes, found: str | None) -> None:
    assert recognised_type(declared, content) == found
