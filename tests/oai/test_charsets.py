"""Character sets of pages: every codec returns storable text or raises a decoding error."""

import codecs
import encodings
import pkgutil

import pytest

from oai.charsets import text_codec

NAMES = sorted(module.name for module in pkgutil.iter_modules(encodings.__path__))


@pytest.mark.parametrize("name", [*NAMES, "no-such-set", "a\0b", "ů"])
def test_every_codec_returns_storable_text_or_raises_a_decoding_error(name: str) -> None:
    codec = text_codec(name)
    for raw in (bytes(range(256)), "Žatva \\ud800".encode(), b"\\ud800\xff") if codec else ():
        try:
            raw.decode(codec).encode()
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("label", ["utf-8", "Windows-1250", "iso-8859-2", "koi8-r", "gb18030", "euc-jp"])
def test_character_sets_of_pages_are_found_by_their_labels(label: str) -> None:
    assert text_codec(label) == codecs.lookup(label).name


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("ISO-8859-1", "cp1252"),
        ("iso88592", "iso8859-2"),
        ("x-cp1250", "cp1250"),
        ("X-SJIS", "cp932"),
        ("Shift_JIS", "cp932"),
        ("gb2312", "gb18030"),
        ("x-gbk", "gb18030"),
        ("Big5", "big5hkscs"),
        ("x-x-big5", "big5hkscs"),
        ("euc-kr", "cp949"),
        ("ISO-8859-8-I", "iso8859-8"),
        ("unicode", "utf-16-le"),
        ("x-mac-cyrillic", "mac-cyrillic"),
        ("windows1250", "cp1250"),
        ("cp-1250", "cp1250"),
        ("latin-2", "iso8859-2"),
        ("utf8mb4", "utf-8"),
    ],
)
def test_labels_have_the_meaning_of_browsers(label: str, codec: str) -> None:
    assert text_codec(label) == codec
