"""Character sets of pages: a codec gives text that can be stored, or a decoding error."""

import codecs
import encodings
import pkgutil

import pytest

from oai.charsets import text_codec

NAMES = sorted(module.name for module in pkgutil.iter_modules(encodings.__path__))


@pytest.mark.parametrize("name", [*NAMES, "no-such-set", "a\0b", "ů"])
def test_a_codec_gives_text_that_can_be_stored_or_a_decoding_error(name: str) -> None:
    codec = text_codec(name)
    for raw in (bytes(range(256)), "Žatva \\ud800".encode(), b"\\ud800\xff") if codec else ():
        try:
            raw.decode(codec).encode()
        except UnicodeDecodeError:
            continue


def test_the_character_sets_of_pages_are_known_by_their_labels() -> None:
    for label in ("utf-8", "Windows-1250", "iso-8859-2", "koi8-r", "gb18030", "euc-jp", "utf-16"):
        assert codecs.lookup(text_codec(label)).name == codecs.lookup(label).name
