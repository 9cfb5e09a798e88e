"""Recognises the type of a document by its first bytes, where the server declared none or a wrong one.

The signatures are those by which browsers recognise content (WHATWG, MIME Sniffing Standard, sections 6 and
7), with the types of documents that browsers only download: Office, OpenDocument, EPUB, Flash, TIFF. What no
signature matches stays unrecognised, except plain text; nothing is guessed from words or statistics.
"""

import re
from collections.abc import Sequence
from typing import Final

from provider.holdings.sets import UNKNOWN_MIMETYPE, mimetype_set_specs

FRONT: Final = 4096
"""Bytes of a payload that are looked at."""

_SAYS_NOTHING: Final = frozenset(
    {
        "application/binary",
        "application/download",
        "application/force-download",
        "application/octet-stream",
        "application/unknown",
        "application/x-download",
        "application/x-unknown",
        "application/x-unknown-content-type",
        "binary/octet-stream",
        "content/unknown",
        "unknown/unknown",
    }
)
"""Types by which a server says that it does not know the type."""
_TEXTS: Final = frozenset(
    {
        "application/javascript",
        "application/json",
        "application/xhtml+xml",
        "application/xml",
        "text/css",
        "text/html",
        "text/plain",
        "text/xml",
    }
)
"""Types whose content is text; servers declare them for files of any kind."""
_SNIFFED: Final = 1445
"""Bytes that decide between text and binary data (section 5.2)."""
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_MARKS: Final = (b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf")
_BLANKS: Final = b"\t\n\x0c\r "

_SIGNATURES: Final[Sequence[tuple[bytes, str]]] = (
    (rb"%PDF-", "application/pdf"),
    (rb"%!PS-Adobe-", "application/postscript"),
    (rb"\{\\rtf", "application/rtf"),
    (rb"\x00\x00[\x01\x02]\x00[\x01-\xff]\x00", "image/x-icon"),
    (rb"BM.{4}\x00{4}", "image/bmp"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF.{4}WEBPVP", "image/webp"),
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"II\*\x00|MM\x00\*", "image/tiff"),
    (rb".{4}ftyp(?:avif|avis)", "image/avif"),
    (rb".{4}ftyp(?:heic|heix|mif1)", "image/heic"),
    (rb".{4}ftyp(?:M4A|M4B)", "audio/mp4"),
    (rb".{4}ftypqt  ", "video/quicktime"),
    (rb".{4}ftyp", "video/mp4"),
    (rb"\x1a\x45\xdf\xa3.{0,64}webm", "video/webm"),
    (rb"\x1a\x45\xdf\xa3.{0,64}matroska", "video/x-matroska"),
    (rb"FORM.{4}AIFF", "audio/aiff"),
    (rb"ID3[\x02-\x04]|\xff[\xfa\xfb][\x10-\xef]", "audio/mpeg"),
    (rb"OggS\x00", "application/ogg"),
    (rb"MThd\x00\x00\x00\x06", "audio/midi"),
    (rb"fLaC\x00", "audio/flac"),
    (rb"RIFF.{4}AVI ", "video/avi"),
    (rb"RIFF.{4}WAVE", "audio/wave"),
    (rb"FLV\x01", "video/x-flv"),
    (rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video/x-ms-asf"),
    (rb"[FCZ]WS[\x01-\x40]", "application/x-shockwave-flash"),
    (rb"OTTO", "font/otf"),
    (rb"\x00\x01\x00\x00\x00[\x01-\x40]", "font/ttf"),
    (rb"ttcf\x00", "font/collection"),
    (rb"wOFF", "font/woff"),
    (rb"wOF2", "font/woff2"),
    (rb".{34}LP.{46}", "application/vnd.ms-fontobject"),
    (rb"\x1f\x8b\x08", "application/gzip"),
    (rb"Rar!\x1a\x07", "application/vnd.rar"),
    (rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (rb"BZh[1-9]1AY", "application/x-bzip2"),
    (rb"\xfd7zXZ\x00", "application/x-xz"),
    (rb".{257}ustar[\x00 ]", "application/x-tar"),
    (rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (rb"AT&TFORM.{4}DJV", "image/vnd.djvu"),
    (rb"MZ.{58}[\x00-\xff]{2}\x00\x00", "application/vnd.microsoft.portable-executable"),
)
_COMPILED: Final = tuple((re.compile(pattern, re.DOTALL), name) for pattern, name in _SIGNATURES)
# The first member of an OpenDocument or EPUB file is its type, uncompressed (OASIS OpenDocument 1.3, part 2,
# section 3.3). Office names its parts by folders.
_ZIP: Final = b"PK\x03\x04"
_ZIP_TYPE: Final = re.compile(
    rb"PK\x03\x04.{26}mimetype(application/[a-z0-9.+-]{1,100})(?:PK|\x00|$)", re.DOTALL
)
_OFFICE: Final = re.compile(rb"PK\x03\x04.{26}(word|xl|ppt)/", re.DOTALL)
_OFFICE_BEGINS: Final = (b"[Content_Types].xml", b"_rels/", b"docProps/", b"word/", b"xl/", b"ppt/")
_NAME: Final = 30
"""Offset of the first member's name."""
_OFFICE_TYPES: Final = {
    b"word": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    b"xl": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    b"ppt": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}
_HTML: Final = re.compile(
    rb"<(?:!doctype html|!--"
    rb"|(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)(?=[ >]))",
    re.IGNORECASE,
)
# Without backtracking into what precedes the root element, so that the time is linear.
_ROOT: Final = re.compile(
    rb"(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*+<([A-Za-z_][\w.:-]*)", re.DOTALL
)
_ROOT_TYPES: Final = {
    b"html": "application/xhtml+xml",
    b"svg": "image/svg+xml",
    b"rss": "application/rss+xml",
    b"feed": "application/atom+xml",
    b"RDF": "application/rdf+xml",
}


def recognised_type(declared: str | None, front: bytes) -> str | None:
    """Return the type of a payload by its first bytes; None if nothing speaks against the declared type.

    `declared` is the value of a Content-Type header, `front` the beginning of the payload without content
    and transfer encodings, of which up to `FRONT` bytes are looked at. A declared type is doubted if it is
    none, if it says nothing, or if it is one of text while the content is not.
    """
    spec, name = mimetype_set_specs(declared)[-1]
    unknown = spec.endswith(f":{UNKNOWN_MIMETYPE}") or name in _SAYS_NOTHING
    if not front or not (unknown or (name in _TEXTS and _is_no_text(front))):
        return None
    found = recognise(front[:FRONT])
    if not unknown and found in _TEXTS:
        return None
    return None if found == name else found


def recognise(front: bytes) -> str | None:
    """Return the type of content that begins with these bytes; None if no signature matches."""
    if front.startswith(_ZIP):
        return _packed_type(front)
    for pattern, name in _COMPILED:
        if pattern.match(front):
            return name
    is_utf_16 = front.startswith(_MARKS[:2])
    text = front.decode("utf-16", "replace").encode() if is_utf_16 else front.removeprefix(_MARKS[-1])
    text = text.lstrip(_BLANKS)
    if text.startswith(b"<?xml"):
        return _root_type(text) or "text/xml"
    if text.startswith(b"<svg"):
        return _ROOT_TYPES[b"svg"]
    if _HTML.match(text):
        return "text/html"
    return "text/plain" if text and not _is_binary(front) else None


def _is_no_text(front: bytes) -> bool:
    return front.startswith(b"%PDF-") or _is_binary(front)


def _is_binary(front: bytes) -> bool:
    """Return whether there are bytes that no text has (section 7.2)."""
    return not front.startswith(_MARKS[:2]) and _BINARY.search(front, 0, _SNIFFED) is not None


def _packed_type(front: bytes) -> str:
    """Return the type of a zip file: that which its first members name, or only that it is one."""
    named = _ZIP_TYPE.match(front)
    if named is not None:
        return named[1].decode("ascii")
    office = _OFFICE.search(front) if front.startswith(_OFFICE_BEGINS, _NAME) else None
    return _OFFICE_TYPES[office[1]] if office else "application/zip"


def _root_type(text: bytes) -> str | None:
    """Return the type that the root element of an XML document has; None for an unknown one."""
    root = _ROOT.match(text)
    return _ROOT_TYPES.get(root[1].rpartition(b":")[2]) if root else None
