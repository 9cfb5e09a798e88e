"""Codes in records: languages as ISO 639-2/B, and ISBN, ISSN, ISMN and DOI."""

import functools
import re
from typing import Final
from urllib.parse import unquote

from harvester.bibliographic.marc21.code_lists import LANGUAGES
from harvester.bibliographic.text import fold

_ISBN: Final = re.compile(
    r"(?<!\d)(?:97[89][-\s\u2010-\u2015]?)?(?:\d[-\s\u2010-\u2015]?){9}[\dXx](?![\dXx])"
)
_ISSN: Final = re.compile(r"(?<![\d-])(\d{4})[-\s\u2010-\u2015]?(\d{3}[\dXx])(?![\d-])")
_ISMN: Final = re.compile(r"(?:979[-\s]?0|\bM)[-\s]?(?:\d[-\s]?){8}\d", re.IGNORECASE)
_DOI: Final = re.compile(r"\b10\.\d{4,9}(?:/|%2F)\S+", re.IGNORECASE)
_AFTER_DOI: Final = ".,;"
_BRACKETS: Final = {")": "(", "]": "[", ">": "<"}
_ISMN_PREFIX: Final = "9790"
_QUERY: Final = re.compile("[?#&]")
_ADDRESS: Final = re.compile(r"(?:https?|ftp)://\S+", re.IGNORECASE)
_NAMED: Final = re.compile(
    r"(?:urn:)?(?:[elp]-?)?(?P<scheme>is[bms]n)(?:-l\b|-1[03](?=[ :]))?", re.IGNORECASE
)
"""The name of a number, also of its form: "eISSN", "ISSN-L", "p-ISSN", "ISBN-13"."""
_LABELLED: Final = re.compile(
    rf"(?:urn|info|hdl|ark):\S+|{_NAMED.pattern}[ :]\s*[\dMX -]+|doi:\s*\S+|{_DOI.pattern}", re.IGNORECASE
)
_DIGITS: Final = re.compile(r"m?[\dx \u2010-\u2015-]+", re.IGNORECASE)
_QUALIFIER: Final = re.compile(r"(?<=[\dXx])\s*\([^()]*\)\s*$")
"""What is in brackets after a number: "(1. sv.)"."""
BETWEEN: Final = re.compile(r"[,;]\s+")
"""What separates the numbers of a list."""
_NO_DIGIT: Final = re.compile(r"[^\dXx]")


def _table(pairs: str) -> dict[str, str]:
    """Parse `a=b c=d` into a mapping."""
    return dict(pair.split("=") for pair in pairs.split())


_TWO: Final = _table(
    "aa=aar ab=abk ae=ave af=afr ak=aka am=amh an=arg ar=ara as=asm av=ava ay=aym az=aze ba=bak "
    "be=bel bg=bul bh=bih bi=bis bm=bam bn=ben bo=tib br=bre bs=bos ca=cat ce=che ch=cha co=cos "
    "cr=cre cs=cze cu=chu cv=chv cy=wel da=dan de=ger dv=div dz=dzo ee=ewe el=gre en=eng eo=epo "
    "es=spa et=est eu=baq fa=per ff=ful fi=fin fj=fij fo=fao fr=fre fy=fry ga=gle gd=gla gl=glg "
    "gn=grn gu=guj gv=glv ha=hau he=heb hi=hin ho=hmo hr=hrv ht=hat hu=hun hy=arm hz=her ia=ina "
    "id=ind ie=ile ig=ibo ii=iii ik=ipk io=ido is=ice it=ita iu=iku ja=jpn jv=jav ka=geo kg=kon "
    "ki=kik kj=kua kk=kaz kl=kal km=khm kn=kan ko=kor kr=kau ks=kas ku=kur kv=kom kw=cor ky=kir "
    "la=lat lb=ltz lg=lug li=lim ln=lin lo=lao lt=lit lu=lub lv=lav mg=mlg mh=mah mi=mao mk=mac "
    "ml=mal mn=mon mr=mar ms=may mt=mlt my=bur na=nau nb=nob nd=nde ne=nep ng=ndo nl=dut nn=nno "
    "no=nor nr=nbl nv=nav ny=nya oc=oci oj=oji om=orm or=ori os=oss pa=pan pi=pli pl=pol ps=pus "
    "pt=por qu=que rm=roh rn=run ro=rum ru=rus rw=kin sa=san sc=srd sd=snd se=sme sg=sag sh=hbs "
    "si=sin sk=slo sl=slv sm=smo sn=sna so=som sq=alb sr=srp ss=ssw st=sot su=sun sv=swe sw=swa "
    "ta=tam te=tel tg=tgk th=tha ti=tir tk=tuk tl=tgl tn=tsn to=ton tr=tur ts=tso tt=tat tw=twi "
    "ty=tah ug=uig uk=ukr ur=urd uz=uzb ve=ven vi=vie vo=vol wa=wln wo=wol xh=xho yi=yid yo=yor "
    "za=zha zh=chi zu=zul cz=cze"
)
_TERMINOLOGY: Final = _table(
    "bod=tib ces=cze cym=wel deu=ger ell=gre eus=baq fas=per fra=fre hye=arm isl=ice kat=geo mkd=mac "
    "mri=mao msa=may mya=bur nld=dut ron=rum slk=slo sqi=alb zho=chi scc=srp scr=hrv mol=rum"
)
_NAMES: Final = {
    fold(name): code
    for code, names in {
        "alb": "Albanian albánština albánsky albánčina shqip",
        "ara": "Arabic arabština arabsky arabčina العربية",
        "arm": "Armenian arménština arménsky arménčina",
        "baq": "Basque baskičtina baskicky baskičtina euskara",
        "bel": "Belarusian Belorussian běloruština bělorusky bieloruština bielorusky беларуская",
        "bul": "Bulgarian bulharština bulharsky bulharčina български",
        "cat": "Catalan katalánština katalánsky katalánčina català",
        "chi": "Chinese čínština čínsky 中文",
        "chu": "staroslověnština staroslověnsky staroslovienčina",
        "cze": "Czech čeština česky český češki",
        "dan": "Danish dánština dánsky dánčina dansk",
        "dut": "Dutch Flemish nizozemština nizozemsky holandština holandsky holandčina nederlands",
        "eng": "English angličtina anglicky anglický",
        "epo": "Esperanto",
        "est": "Estonian estonština estonsky estónčina eesti",
        "fin": "Finnish finština finsky fínčina suomi",
        "fre": "French francouzština francouzsky francúzština francúzsky français",
        "geo": "Georgian gruzínština gruzínsky gruzínčina",
        "ger": "German němčina německy nemčina nemecky německý deutsch",
        "gle": "Irish irština irsky gaeilge",
        "gre": "Greek řečtina řecky novořečtina gréčtina grécky ελληνικά",
        "heb": "Hebrew hebrejština hebrejsky hebrejčina עברית",
        "hin": "Hindi hindština",
        "hrv": "Croatian chorvatština chorvatsky chorvátčina hrvatski",
        "hun": "Hungarian maďarština maďarsky maďarčina magyar",
        "ice": "Icelandic islandština islandsky islandčina íslenska",
        "ita": "Italian italština italsky taliančina taliansky italiano",
        "jpn": "Japanese japonština japonsky japončina 日本語",
        "kor": "Korean korejština korejsky kórejčina 한국어",
        "lat": "Latin latina latinsky latinčina",
        "lav": "Latvian lotyština lotyšsky latviešu",
        "lit": "Lithuanian litevština litevsky litovčina lietuvių",
        "mac": "Macedonian makedonština makedonsky macedónčina македонски",
        "nor": "Norwegian norština norsky nórčina norsk",
        "per": "Persian Farsi perština persky perzština",
        "pol": "Polish polština polsky poľština poľsky polski",
        "por": "Portuguese portugalština portugalsky portugalčina português",
        "rom": "Romani romština romsky rómčina",
        "rum": "Romanian rumunština rumunsky rumunčina română",
        "rus": "Russian ruština rusky русский",
        "slo": "Slovak slovenčina slovenština slovensky",
        "slv": "Slovenian Slovene slovinština slovinsky slovinčina slovenščina",
        "spa": "Spanish španělština španělsky španielčina španielsky español castellano",
        "srp": "Serbian srbština srbsky srbčina srpski српски",
        "swe": "Swedish švédština švédsky švédčina svenska",
        "tur": "Turkish turečtina turecky türkçe",
        "ukr": "Ukrainian ukrajinština ukrajinsky ukrajinčina українська",
        "vie": "Vietnamese vietnamština vietnamsky vietnamčina",
        "yid": "Yiddish jidiš",
    }.items()
    for name in names.split()
}
"""Names in English, Czech and Slovak (nouns and adverbs, which are adjectives once folded), and their own."""
_LANGUAGE_WORDS: Final = frozenset({"jazyk", "language"})
"""Words that may follow a name: "český jazyk"."""
_IN_LIST: Final = re.compile(r",|(?<=\w{3}) ?/ ?(?=\w{3})")
"""A comma, or a slash between words or codes of three letters; `pt/br` is a language and a country."""
_NO_LANGUAGE: Final = frozenset({"und", "mul", "zxx", "mis"})
_CODE: Final = re.compile(r"[a-z]{3}")


@functools.lru_cache(maxsize=1024)
def language_code(text: str) -> str | None:
    """Return the code for a code, a tag such as `cs-CZ`, or a name; None if it is not a known language.

    A name may be followed by its code or by *language*: "Czech (cze)", "český jazyk". A three-letter
    code is accepted unchecked. Codes that name no language (`und`, `mul`, `zxx`) give None.
    """
    word = text.strip().lower()
    first = re.split(r"[-_]", word, maxsplit=1)[0]
    if first in _TWO:
        return _TWO[first]
    if _CODE.fullmatch(first):
        code = _TERMINOLOGY.get(first, first)
        return None if code in _NO_LANGUAGE else code
    folded = fold(word)
    name, _, end = folded.rpartition(" ")
    if name in _NAMES and (end in _LANGUAGE_WORDS or language_code(end) == _NAMES[name]):
        return _NAMES[name]
    return _NAMES.get(folded)


def language_codes(text: str) -> tuple[list[str], bool]:
    """Return the codes in a list or an address, except those of no language, and whether all are known.

    >>> language_codes("eng; zxx; cs"), language_codes("http://id.loc.gov/vocabulary/iso639-2/cze; x")
    ((['eng', 'cze'], True), (['cze'], False))
    """
    codes: list[str] = []
    are_known = True
    for entry in filter(None, map(str.strip, text.split(";"))):
        word = entry.rpartition("/")[2] if is_address(entry) else entry
        parts = [part.strip().lower() for part in _IN_LIST.split(word)]
        found = [language_code(part) for part in parts if part not in _NO_LANGUAGE]
        # Only alone, a code of three letters need not be in MARC's list; "English, Old" is no list.
        if (len(parts) > 1 or word != entry) and not LANGUAGES.issuperset(found):
            found = [language_code(entry)]
        codes += filter(None, found)
        are_known = are_known and None not in found
    return codes, are_known


def split_codes(text: str) -> list[str]:
    """Split a MARC subfield into codes: one, or several run together as in older records ("engfre")."""
    word = text.strip().lower()
    if len(word) > 3 and len(word) % 3 == 0 and word.isascii() and word.isalpha():  # noqa: PLR2004
        return [word[place : place + 3] for place in range(0, len(word), 3)]
    return [part for part in re.split(r"[\s,;]+", word) if part]


def find_isbn(text: str) -> tuple[str, bool] | None:
    """Return the first ISBN in the text as 13 digits and whether its check digit is right; None without one.

    An ISBN with a wrong check digit is returned with its own digits. An ISMN or a row of zeros is none.

    >>> find_isbn("80-200-0129-8 (váz.)")
    ('9788020001290', True)
    """
    for found in _ISBN.finditer(text):
        digits = _NO_DIGIT.sub("", found[0]).upper()
        if digits.startswith(_ISMN_PREFIX) or not digits.strip("0"):
            continue
        if len(digits) == 10:  # noqa: PLR2004 an ISBN before 2007
            return (_as_13_digits("978" + digits[:9]), True) if _good_ten(digits) else (digits, False)
        return digits, "X" not in digits and digits == _as_13_digits(digits[:12])
    return None


def find_issn(text: str) -> tuple[str, bool] | None:
    """Return the first ISSN in the text as `1234-567X`, and whether its check digit is right."""
    found = _ISSN.search(text)
    if found is None:
        return None
    digits = (found[1] + found[2]).upper()
    total = sum((8 - place) * int(digit) for place, digit in enumerate(digits[:7]))
    check = (11 - total % 11) % 11
    return f"{digits[:4]}-{digits[4:]}", digits[7] == ("X" if check == 10 else str(check))  # noqa: PLR2004


def find_ismn(text: str) -> tuple[str, bool] | None:
    """Return the first ISMN as 13 digits (M becomes 979-0), and whether its check digit is right."""
    found = _ISMN.search(text)
    if found is None:
        return None
    digits = _ISMN_PREFIX + re.sub(r"\D", "", found[0]).removeprefix(_ISMN_PREFIX)
    return digits, digits == _as_13_digits(digits[:12])


def find_doi(text: str) -> str | None:
    """Return the first DOI in the text, in lower case, without a preceding `doi:` and parts of an address.

    Percent escapes are decoded. A closing bracket at the end that is not opened in the DOI is not part of it.

    >>> find_doi("(https://doi.org/10.1000/abc%28d%29)")
    '10.1000/abc(d)'
    """
    found = _DOI.search(text)
    if found is None:
        return None
    doi = found[0] if "://" not in text[: found.start()] else _QUERY.split(found[0], maxsplit=1)[0]
    decoded = unquote(doi)
    if decoded.isprintable() and not any(sign in decoded for sign in " \ufffd"):
        doi = decoded
    surplus = {closing: doi.count(closing) - doi.count(opening) for closing, opening in _BRACKETS.items()}
    end = len(doi)
    while doi[end - 1] in _AFTER_DOI or surplus.get(doi[end - 1], 0) > 0:
        end -= 1
        surplus[doi[end]] = surplus.get(doi[end], 0) - 1
    return doi[:end].lower()


CHECKED: Final = (("isbn", find_isbn, {10, 13}), ("ismn", find_ismn, {9, 13}), ("issn", find_issn, {8}))
"""Schemes with a check digit, and how many digits a number has."""


def checked_number(text: str) -> tuple[str, str] | None:
    """Return scheme and value of the only number in the text, if its check digit is right.

    >>> checked_number("M-2600-0043-8"), checked_number("1990-1995")
    (('ismn', '9790260000438'), None)
    """
    text = _QUALIFIER.sub("", text)
    length = len(_NO_DIGIT.sub("", text))
    for scheme, find, lengths in CHECKED:
        found = find(text) if length in lengths else None
        if found is not None and found[1]:
            return scheme, found[0]
    return None


def identify(text: str, scheme: str) -> tuple[str, str, bool]:
    """Return the scheme, the normalised value, and whether its check digit is right."""
    doi = find_doi(text)
    if doi:
        return "doi", doi, True
    if is_address(text):
        return "uri", text, True
    named = _NAMED.match(text)
    for name, find, _lengths in CHECKED:
        if name == (named["scheme"].lower() if named else scheme):
            return (name, *(find(text[named.end() :] if named else text) or (text, False)))
    number = checked_number(text)
    if number is not None and number[0] != "issn":  # a number of eight digits can be any other one
        return *number, True
    return scheme or "other", text, True


def identify_all(text: str, scheme: str) -> list[tuple[str, str, str, bool]]:
    """Return each number in the text with what `identify` returns for it.

    Only a list of numbers of one kind with right check digits, named once, is divided.

    >>> identify_all("ISSN 0317-8471, 1803-8271", "")
    [('ISSN 0317-8471', 'issn', '0317-8471', True), ('1803-8271', 'issn', '1803-8271', True)]
    """
    first, *others = BETWEEN.split(text)
    kind = identify(first, scheme)[0] if others else ""
    if not all((number := checked_number(one)) and number[0] == kind for one in (first, *others)):
        return [(text, *identify(text, scheme))]
    return [(one, *identify(one, kind)) for one in (first, *others)]


def is_address(text: str) -> bool:
    """Return whether the text is only an address that starts with http, https or ftp."""
    return _ADDRESS.fullmatch(text) is not None


def is_identifier(text: str) -> bool:
    """Return whether the text is only an address, another URI, a DOI, or an ISBN, ISMN or ISSN.

    >>> is_identifier("10.1000/1"), is_identifier("0317-8471"), is_identifier("1990-1995")
    (True, True, False)
    """
    if is_address(text) or _LABELLED.fullmatch(text):
        return True
    return _DIGITS.fullmatch(text) is not None and checked_number(text) is not None


def _good_ten(digits: str) -> bool:
    if "X" in digits[:9]:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((10 - place) * value for place, value in enumerate(values)) % 11 == 0


def _as_13_digits(twelve: str) -> str:
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(twelve[:12]))
    return f"{twelve[:12]}{-total % 10}"
