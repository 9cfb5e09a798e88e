"""The character sets that archived pages declare, as Python's codecs."""

import codecs
from functools import lru_cache
from typing import Final

# Text encodings to Python, but no character sets of pages. Some raise other errors than UnicodeDecodeError,
# or give halves of surrogate pairs, which nothing can store.
_NO_CHARSETS: Final = frozenset(
    {"undefined", "unicode-escape", "raw-unicode-escape", "idna", "punycode", "utf-7"}
)
# Browsers read these as supersets, which pages use (WHATWG, Encoding Standard, section 4.2).
_SUPERSETS: Final = {
    "ascii": "cp1252", "big5": "big5hkscs", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030",
    "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "shift_jis": "cp932",
    "tis-620": "cp874", "utf-16": "utf-16-le",
}  # fmt: skip
# Labels of the same section that Python does not know, x-mac-ce, and misspelt ones whose meaning is obvious.
_LABELS: Final = {
    "cn-big5": "big5", "cseuckr": "cp949",
    "cseucpkdfmtjapanese": "euc_jp", "csgb2312": "gbk", "csiso88596e": "iso8859-6",
    "csiso88596i": "iso8859-6", "csiso88598e": "iso8859-8", "csiso88598i": "iso8859-8",
    "csisolatin9": "iso8859-15", "csksc56011987": "cp949", "csmacintosh": "mac_roman", "csunicode": "utf-16",
    "dos-874": "cp874", "gb_2312": "gbk", "gb_2312-80": "gbk", "iso-10646-ucs-2": "utf-16",
    "iso-8859-6-e": "iso8859-6", "iso-8859-6-i": "iso8859-6", "iso-8859-8-e": "iso8859-8",
    "iso-8859-8-i": "iso8859-8", "iso-ir-149": "cp949", "koi": "koi8-r", "koi8": "koi8-r",
    "koi8-ru": "koi8-u", "ks_c_5601-1989": "cp949", "ksc_5601": "cp949", "logical": "iso8859-8",
    "mac": "mac_roman", "sun_eu_greek": "iso8859-7", "ucs-2": "utf-16", "unicode": "utf-16",
    "unicode-1-1-utf-8": "utf-8", "unicode11utf8": "utf-8", "unicode20utf8": "utf-8",
    "unicodefeff": "utf-16", "unicodefffe": "utf-16-be", "visual": "iso8859-8", "windows-31j": "cp932",
    "windows-874": "cp874", "windows-949": "cp949", "x-euc-jp": "euc_jp", "x-gbk": "gbk",
    "x-mac-ce": "mac_latin2", "x-mac-cyrillic": "mac_cyrillic", "x-mac-roman": "mac_roman",
    "x-mac-ukrainian": "mac_cyrillic", "x-sjis": "cp932", "x-unicode20utf8": "utf-8",
    "x-user-defined": "cp1252", "x-x-big5": "big5",
    "utf8mb3": "utf-8", "utf8mb4": "utf-8",
    **{f"latin-{number}": f"latin{number}" for number in range(1, 11)},
    **{f"{word}{page}": f"cp{page}" for word in ("windows", "cp-") for page in (874, *range(1250, 1259))},
    **{f"iso8859{part}": f"iso8859-{part}" for part in (*range(1, 12), 13, 14, 15)},
    **{f"x-cp{page}": f"cp{page}" for page in range(1250, 1259)},
}  # fmt: skip


@lru_cache(maxsize=256)
def text_codec(label: str) -> str:
    """Return the name of Python's codec for a character set; empty if it is unknown or none for pages.

    Labels mean what they mean to browsers: `iso-8859-1` is windows-1252.

    >>> text_codec("Windows-1250"), text_codec("x-sjis"), text_codec("hex"), text_codec("undefined")
    ('cp1250', 'cp932', '', '')
    """
    try:
        found = codecs.lookup(_LABELS.get(label.lower(), label))
    except (LookupError, ValueError):
        return ""
    # `hex` and `zip` are no text encodings.
    known = found._is_text_encoding and found.name not in _NO_CHARSETS  # noqa: SLF001 there is no public name for it
    return _SUPERSETS.get(found.name, found.name) if known else ""
