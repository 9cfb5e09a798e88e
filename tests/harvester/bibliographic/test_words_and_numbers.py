"""Dates, numbers, languages, folding and punctuation as found in catalogues."""

import doctest

import pytest

from harvester.bibliographic import codes, dates, dublin_core_values, punctuation, search, text
from harvester.bibliographic.codes import (
    find_doi,
    find_isbn,
    find_ismn,
    find_issn,
    identify,
    is_identifier,
    language_code,
    split_codes,
)
from harvester.bibliographic.dates import find_years
from harvester.bibliographic.marc21 import relators
from harvester.bibliographic.punctuation import clean
from harvester.bibliographic.record import Years
from harvester.bibliographic.search import full_text
from harvester.bibliographic.text import fold


@pytest.mark.parametrize("module", [dates, text, punctuation, search, relators, codes, dublin_core_values])
def test_the_examples_in_docstrings_hold(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("asi 1371-1415", 1371, 1415),
        ("[19--]", 1900, 1999),
        ("[199-?]", 1990, 1999),
        ("c1998", 1998, 1998),
        ("©2015", 2015, 2015),
        ("[1998?]", 1998, 1998),
        ("1998-2003", 1998, 2003),
        ("1998/99", 1998, 1999),
        ("1998-", 1998, None),
        ("<1998->", 1998, None),
        ("[1998]-", 1998, None),
        ("[1998?]-", 1998, None),
        ("1998?-", 1998, None),
        ("[1998?-]", 1998, None),
        ("<1998>-", 1998, None),
        ("[ca 1998]-", 1998, None),
        ("[199-]-", 1990, None),
        ("[mezi 1990 a 1995] -", 1990, None),
        ("199[5]-", 1995, None),
        ("1355 [1976]-", 1976, None),
        ("1426 AH [2005]-", 2005, None),
        ("Roč. 1, č. 1 (1987)-", 1987, None),
        ("2001 (2002)-", 2001, None),
        ("1998 (č. 1)-", 1998, None),
        ("[1998]-2003", 1998, 2003),
        ("[1998]-[2003]", 1998, 2003),
        ("[1998-2003]", 1998, 2003),
        ("[Praha]-", None, None),
        ("1998-03-04", 1998, 1998),
        ("1998-03", 1998, 1998),
        ("2005/10/03", 2005, 2005),
        ("2005-10-3", 2005, 2005),
        ("2001-12-5", 2001, 2001),
        ("2003-13-45", 2003, 2003),
        ("30.11.2010-5.12.2010", 2010, 2010),
        ("1926-30 cop. 1926", 1926, 1930),
        ("1914-18 reprint 1967", 1914, 1918),
        ("1998-9. vyd. 2001", 1998, 1999),
        ("30 Nov 2010 - 15 Dec 2010", 2010, 2010),
        ("1998-99 and 2003", 1998, 1999),
        ("2005-06?", 2005, 2005),
        ("2005-06~", 2005, 2005),
        ("2004-06-XX", 2004, 2004),
        ("2010-11Z", 2010, 2010),
        ("2010-11+01:00", 2010, 2010),
        ("2001-21/2003-22", 2001, 2003),
        ("2004-21", 2004, 2021),
        ("1904-09.", 1904, 1909),
        ("1998/99-", 1998, 1999),
        ("1998-99.", 1998, 1999),
        ("1970s", 1970, 1979),
        ("1960s-1980's", 1960, 1989),
        ("70. léta 20. století", 1970, 1979),
        ("70.léta 20.století", 1970, 1979),
        ("v 70. letech 20. století", 1970, 1979),
        ("[70. léta 20. stol.]", 1970, 1979),
        ("70. roky 20. storočia", 1970, 1979),
        ("90-te roky XX. storočia", 1990, 1999),
        ("30. léta 19. stol.", 1830, 1839),
        ("00. léta 21. století", 2000, 2009),
        ("20. léta 21. století", 2020, 2029),
        ("60.-70. léta 20. století", 1960, 1979),
        ("přelom 60. a 70. let 20. století", 1960, 1979),
        ("konec 60. let 20. století", 1960, 1969),
        ("konec 19. - 20. léta 20. století", 1868, 1929),
        ("70er Jahre des 20. Jahrhunderts", 1970, 1979),
        ("70. léta - konec 20. století", 1968, 2000),
        ("80. léta 19. století - 20. léta 20. století", 1880, 1929),
        ("90. léta 19. stol. až první polovina 20. stol.", 1890, 1950),
        ("druhá pol. 18. stol. - první pol. 19. stol.", 1751, 1850),
        ("50. léta 15. století, vazba 18. století", 1450, 1459),
        ("2. polovina 19. století, 1. polovina 19. století", 1851, 1900),
        ("prvních 50 let 20. století", 1901, 2000),
        ("posledných 20 rokov 20. storočia", 1901, 2000),
        ("30. léta 1. století př. n. l.", -100, -1),
        ("0000-00-00", None, None),
        ("0000", None, None),
        ("0000-01-01", None, None),
        ("0000-00-00 (1998)", 1998, 1998),
        ("0uuu", 1, 999),
        ("03.04.1998", 1998, 1998),
        ("mezi 1410 a 1420", 1410, 1420),
        ("15. století", 1401, 1500),
        ("XV. storočie", 1401, 1500),
        ("koniec 19. storočia", 1868, 1900),
        ("18. - 19. storočie", 1701, 1900),
        ("prvá polovica 19. storočia", 1801, 1850),
        ("polovica 19. storočia", 1826, 1875),
        ("první polovina 19. století", 1801, 1850),
        ("ve druhé polovině 19. století", 1851, 1900),
        ("třetí čtvrtina 17. století", 1651, 1675),
        ("posledná štvrtina 18. storočia", 1776, 1800),
        ("second half of the 19th century", 1851, 1900),
        ("19th-20th century", 1801, 2000),
        ("late 19th - early 20th century", 1868, 1933),
        ("19th and 20th centuries", 1801, 2000),
        ("XIX. a XX. století", 1801, 2000),
        ("druhá pol. 18. - první pol. 19. stol.", 1751, 1850),
        ("prvotisk, polovina 15. století", 1426, 1475),
        ("v 6. století", 501, 600),
        ("XV. stol.", 1401, 1500),
        ("14.-15. století", 1301, 1500),
        ("1. polovina 15. století", 1401, 1450),
        ("konec 15. stol.", 1468, 1500),
        ("15th century", 1401, 1500),
        ("15. st.", 1401, 1500),
        ("konec XV.st.", 1468, 1500),
        ("14.-15. st.", 1301, 1500),
        ("21st century", 2001, 2100),
        ("21st March 2005", 2005, 2005),
        ("1st May 1998", 1998, 1998),
        ("Jan. 1st, 2010", 2010, 2010),
        ("1st ed. 1965", 1965, 1965),
        ("21 St. James Street", None, None),
        ("před 1500", None, 1500),
        ("po 1420", 1420, None),
        ("[před rokem 1945]", None, 1945),
        ("před r. 1945", None, 1945),
        ("pred rokom 1945", None, 1945),
        ("[do roku 1945]", None, 1945),
        ("[nejpozději v roce 1945]", None, 1945),
        ("[po roce 1989]", 1989, None),
        ("po r.1989", 1989, None),
        ("po roku 1989", 1989, None),
        ("od roku 1989 do roku 1995", 1989, 1995),
        ("v roce 1989", 1989, 1989),
        ("po 5. ročníku 1989", 1989, 1989),
        ("44 př. n. l.", -44, -44),
        ("5th century B.C.", -500, -401),
        ("5. stol. př. n. l.", -500, -401),
        ("2. století před Kristem", -200, -101),
        ("5.-4. stol. př. n. l.", -500, -301),
        ("1. polovina 5. stol. př. n. l.", -500, -451),
        ("-0044", -44, -44),
        ("-0044-03-15", -44, -44),
        ("\u22120044?", -44, -44),
        ("-0044/0014", -44, 14),
        ("-0044/-0014", -44, -14),
        ("-1500/-1200", -1500, -1200),
        ("-0044-03/0014-08-19", -44, 14),
        ("-0044/..", -44, None),
        ("1999/..", 1999, None),
        ("1985-04-12/..", 1985, None),
        ("1985-04/", 1985, None),
        ("1999?/open", 1999, None),
        ("../1999", None, 1999),
        ("/1999-05", None, 1999),
        ("[-0001/0001]", -1, 1),
        ("-0014/-0044", -44, -14),
        ("-1905", 1905, 1905),
        ("-1905/1906", 1905, 1906),
        ("44 BC - 14 AD", -44, 14),
        ("44 B.C.-A.D. 14", -44, 14),
        ("27 př. n. l. až 14 n. l.", -27, 14),
        ("2. stol. př. n. l. - 1. stol. n. l.", -200, 100),
        ("44 BC - 2nd century CE", -44, 200),
        ("44 BC - 14 BC", -44, -14),
        ("13 March 44 BC", -44, -44),
        ("15. března 44 př. n. l.", -44, -44),
        ("44 and 13 BC", -44, -13),
        ("5. stol. až 3. stol. př. n. l.", -500, -201),
        ("5th century to 3rd century BC", -500, -201),
        ("20051003", 2005, 2005),
        ("20051003T120000Z", 2005, 2005),
        ("20051003/20060101", 2005, 2006),
        ("info:eu-repo/date/embargoEnd/20270101", 2027, 2027),
        ("20051303", None, None),
        ("12345678", None, None),
        ("1426 AH", 2005, 2006),
        ("A.H. 1426", 2005, 2006),
        ("1426H", 2005, 2006),
        ("1426 \u0647\u0640", 2005, 2006),
        ("\u0661\u0664\u0662\u0666 \u0647", 2005, 2006),
        ("1425-1426 AH", 2004, 2006),
        ("1384 \u0647.\u0634", 2005, 2006),
        ("1426 AH - 1427 AH", 2005, 2007),
        ("1384 SH", 2005, 2006),
        ("1426 AH [2005]", 2005, 2005),
        ("2005/1426 AH", 2005, 2005),
        ("1423H/2002M", 2002, 2002),
        ("1426 Halle", 1426, 1426),
        ("1426 H. Schmidt", 1426, 1426),
        ("1949\u201355", 1949, 1955),
        ("1998\u2013", 1998, None),
        ("1998-9", 1998, 1999),
        ("2005-3", 2005, 2005),
        ("1999/00", 1999, 2000),
        ("1995/00", 1995, 1995),
        ("[not after 1900]", None, 1900),
        ("[ne po 1900]", None, 1900),
        ("not before 1900", 1900, None),
        ("1895 [i.e. 1985]", 1985, 1985),
        ("1895 [ i. e. 1985]", 1985, 1985),
        ("1958 [tj. 1985]", 1985, 1985),
        ("anno 5760 [2000]", 2000, 2000),
        ("199[5]", 1995, 1995),
        ("c199[5]", 1995, 1995),
        ("196[8?]", 1968, 1968),
        ("[20]05", 2005, 2005),
        ("[19]98-[20]05", 1998, 2005),
        ("198[?]", 1980, 1989),
        ("19[--]", 1900, 1999),
        ("189.", 1890, 1899),
        ("[189.]", 1890, 1899),
        ("18..", 1800, 1899),
        ("[19..]", 1900, 1999),
        ("196?-197?", 1960, 1979),
        ("850-860", 850, 860),
        ("850.", 850, 850),
        ("[1]998", 1998, 1998),
        ("1990[-1995]", 1990, 1995),
        ("1355 [1976]", 1976, 1976),
        ("1395 [1975].", 1975, 1975),
        ("1369 [1990 or 1991]", 1990, 1991),
        ("1895 [1985]", 1895, 1985),
        ("2005 (ISBN 80-200-0129-8)", 2005, 2005),
        ("MDCCCXLVIII", 1848, 1848),
        ("s.a.", None, None),
        ("", None, None),
        ("99999999999999", None, None),
    ],
)
def test_years_are_read_from_dates(text: str, first: int | None, last: int | None) -> None:
    assert find_years(text) == Years(first=first, last=last)


@pytest.mark.parametrize("sign", "\u02b9\u02ba\u02bb\u02bc\u02be\u02bf")
def test_transliteration_signs_are_not_letters_of_a_word(sign: str) -> None:
    assert fold(f"{sign}Abd Qur{sign}\u0101n") == "abd quran"


def test_thousands_of_marks_on_a_letter_are_separated_in_titles_and_folded_away() -> None:
    letter = "a" + "\u0301" * 1000 + "\u0323" * 1000
    assert clean(f"Praha {letter} /").count("\u034f") == 2000 // 30
    # Soft hyphens are removed, and so do not separate marks.
    assert fold("Praha a" + "\u0323\u00ad\u0301" * 1000) == "praha a"


def test_numbers_are_found_and_their_check_digits_verified() -> None:
    assert find_isbn("ISBN 80-200-0129-8") == ("9788020001290", True)
    assert find_isbn("0-8044-2957-X") == ("9780804429573", True)
    assert find_isbn("978-80-200-0129-1") == ("9788020001291", False)
    assert find_isbn("bez čísla 123") is None
    assert find_issn("ISSN 0027-8203") == ("0027-8203", True)
    assert find_issn("0027-8204") == ("0027-8204", False)
    assert find_doi("https://doi.org/10.1000/Abc.") == "10.1000/abc"
    assert find_doi("https://x.example/doi/full/10.1080/1234?scroll=top") == "10.1080/1234"
    assert find_doi("https://x.example/?doi=10.1080/1234&page=1#top") == "10.1080/1234"
    assert find_doi("10.1080/a?b#c") == "10.1080/a?b#c"
    assert find_isbn("979-0-2600-0043-8") is None
    assert find_isbn("979-10-90636-07-1") == ("9791090636071", True)
    assert find_isbn("ISMN 979-0-2600-0043-8, ISBN 80-200-0129-8") == ("9788020001290", True)
    assert find_isbn("0000000000") is None
    assert find_ismn("ISMN 979-0-2600-0043-8") == ("9790260000438", True)
    assert find_ismn("M-2600-0043-8") == ("9790260000438", True)


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("10.1000%2Fxyz", "10.1000/xyz"),
        ("https://x.example/?doi=10.1000%2fxyz&page=1", "10.1000/xyz"),
        ("https://doi.org/10.1000/abc%28d%29", "10.1000/abc(d)"),
        ("https://doi.org/10.1000/a%3Fb?c=d", "10.1000/a?b"),
        ("https://doi.org/10.1002/8%3C693::AID%3E3.0.CO;2-O", "10.1002/8<693::aid>3.0.co;2-o"),
        ("10.1000/a%00b%20c", "10.1000/a%00b%20c"),
        ("10.1000/a%FFb", "10.1000/a%ffb"),
        ("(doi:10.1000/abc)", "10.1000/abc"),
        ("(see doi:10.1000/abc(d)).", "10.1000/abc(d)"),
        ("[10.1000/abc];", "10.1000/abc"),
        ("<https://doi.org/10.1000/abc>", "10.1000/abc"),
        ("10.1000/abc(def)", "10.1000/abc(def)"),
        ("10.1016/S0040-4039(00)91283-4", "10.1016/s0040-4039(00)91283-4"),
    ],
)
def test_a_doi_is_returned_in_its_registered_form(text: str, doi: str) -> None:
    assert find_doi(text) == doi


@pytest.mark.parametrize(
    ("text", "scheme", "value"),
    [
        ("eISSN 0317-8471", "issn", "0317-8471"),
        ("e-ISSN: 0317-8471", "issn", "0317-8471"),
        ("p-ISSN 0317-8471", "issn", "0317-8471"),
        ("ISSN-L 0317-8471", "issn", "0317-8471"),
        ("urn:issn:0317-8471", "issn", "0317-8471"),
        ("e-ISBN 978-80-200-0129-0", "isbn", "9788020001290"),
        ("ISBN-13: 978-80-200-0129-0", "isbn", "9788020001290"),
        ("ISBN-13 978-80-200-0129-0", "isbn", "9788020001290"),
        ("eISBN 978-80-200-0129-1", "isbn", "9788020001291"),
    ],
)
def test_a_number_with_the_name_of_its_scheme_is_recognised(text: str, scheme: str, value: str) -> None:
    assert identify(text, "")[:2] == (scheme, value)
    assert is_identifier(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cs", "cze"), ("ces", "cze"), ("cze", "cze"), ("cs-CZ", "cze"), ("Čeština", "cze"), ("sk", "slo"),
        ("slk", "slo"), ("Slovak", "slo"), ("grc", "grc"), ("und", None), ("česky psané", None), ("", None),
        ("ukrajinština", "ukr"), ("Ukrainian", "ukr"), ("Dutch", "dut"), ("portugalčina", "por"),
        ("日本語", "jpn"), ("русский", "rus"), ("český jazyk", "cze"), ("Slovenský jazyk", "slo"),
        ("Czech (cze)", "cze"), ("Czech (ces)", "cze"), ("Czech (cs)", "cze"), ("English (UK)", None),
        ("Old English", None), ("Czech language", "cze"),
    ],
)  # fmt: skip
def test_languages_are_converted_to_one_code(text: str, code: str | None) -> None:
    assert language_code(text) == code


def test_concatenated_codes_are_split() -> None:
    assert split_codes("czeger") == ["cze", "ger"]
    assert split_codes("cze, ger") == ["cze", "ger"]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("Praha :", "Praha"), ("Academia,", "Academia"), ("= Title", "Title"), ("2. vyd. -", "2. vyd."),
        ("  A  \n B ", "A B"), ("R.U.R.", "R.U.R."), ("C++ /", "C++"), ("", ""),
    ],
)  # fmt: skip
def test_isbd_punctuation_is_removed(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("slovník", "slovnik:*"),
        ("kniha", "knih:*"),
        ("o jazyce", "o & jazyc:*"),
        ('"Kniha o čem"', "(kniha <-> o <-> cem)"),
        ("kniha -latin", "knih:* & !latin:*"),
        ("kniha nebo rukopis", "(knih:*) | (rukopis:*)"),
        ("978-80-200-0129-0", "(9788020001290:* | (978 <-> 80 <-> 200 <-> 0129 <-> 0))"),
        ("978 80 200 0129 0", "(9788020001290:* | (978 <-> 80 <-> 200 <-> 0129 <-> 0))"),
        ("8020001298", "(9788020001290:* | 8020001298:*)"),
        ("9788020001290", "9788020001290:*"),
        ('"ISBN 80-200-0129-8"', "(9788020001290 | (isbn <-> 80 <-> 200 <-> 0129 <-> 8))"),
        ("0027-8203", "(00278203:* | (0027 <-> 8203:*))"),
        ("80-7106-017-X", "(807106017x:* | (80 <-> 7106 <-> 017 <-> x))"),
        ("978-80-200-1234-5", "(9788020012345:* | (978 <-> 80 <-> 200 <-> 1234 <-> 5))"),
        ("isbn: 80-7106-017-8", "(9788071060178:* | (80 <-> 7106 <-> 017 <-> 8))"),
        ("ISSN 0027-8203", "(00278203:* | (0027 <-> 8203:*))"),
        ("kniha -00278203", "knih:* & !(00278203:* | (0027 <-> 8203:*))"),
        ("Slovensko 1918-1922", "slovensk:* & (19181922:* | (1918 <-> 1922:*))"),
        ("1918\u20131922", "(19181922:* | (1918 <-> 1922:*))"),
        ("1918 1922", "1918:* & 1922:*"),
        ('"válka 1918-1922"', "(valka <-> 1918 <-> 1922)"),
        ("1801-1705", "(18011705:* | (1801 <-> 1705:*))"),
        ("979-0-2600-0043-8", "(9790260000438:* | (979 <-> 0 <-> 2600 <-> 0043 <-> 8))"),
        ("M-2600-0043-8", "(9790260000438:* | (m <-> 2600 <-> 0043 <-> 8))"),
        ("10.1007/978-80-200-0129-0", "(10 <-> 1007 <-> 978 <-> 80 <-> 200 <-> 0129 <-> 0)"),
        ("https://doi.org/10.1000/ABC.1", "(10 <-> 1000 <-> abc <-> 1)"),
        ("česko-slovenský", "(cesko <-> slovensk:*)"),
        ("&|!():*<->", ""),
        ("'); DROP TABLE", "drop:* & tabl:*"),
        ('"', ""),
    ],
)
def test_user_input_becomes_a_full_text_query(query: str, written: str) -> None:
    assert full_text(query) == written
