"""MARC 21 records of many kinds, written after the MARC documentation, and the rows that they become."""

# ruff: noqa: RUF001 Cyrillic letters on purpose

import pytest

from harvester.bibliographic.batches import values_of
from harvester.bibliographic.dates import find_years
from harvester.bibliographic.record import (
    Contributor,
    Identifier,
    Link,
    Note,
    Publication,
    RecordKind,
    Related,
    Series,
    Subject,
    TitleVariant,
    Years,
)
from tests.harvester.bibliographic.marc import FIXED, LEADER, converted, faults, kept


def test_a_book_by_an_early_author() -> None:
    record = converted(
        "001 kpm01361543",
        "003 CZ-PrHAC",
        "100 1# $aHus, Jan,$dasi 1371-1415$eAutor$7jn19981001473",
        "245 10 $aKnihy kacířů se mají číst /$cMistr Jan Hus ; z latiny přeložil Martin Wernisch.",
        "250 ## $aVydání první",
        "264 #1 $aPraha :$bKalich,$c2015",
        "300 ## $a305 stran :$bilustrace ;$c21 cm",
        "700 1# $aWernisch, Martin,$d1962-$4trl",
    )
    assert record.title == "Knihy kacířů se mají číst"
    assert record.sort_title == "knihy kaciru se maji cist"
    assert record.statement == "Mistr Jan Hus ; z latiny přeložil Martin Wernisch"
    assert (record.kind, record.control_number, record.control_source) == (
        RecordKind.BOOK,
        "kpm01361543",
        "CZ-PrHAC",
    )
    assert (record.years, record.country, record.languages) == (Years(first=2015, last=2015), "xr", ("cze",))
    assert record.contributors == (
        Contributor(
            name="Hus, Jan",
            dates="asi 1371-1415",
            roles=("aut",),
            authority_ids=("jn19981001473",),
            main=True,
        ),
        Contributor(name="Wernisch, Martin", dates="1962-", roles=("trl",)),
    )
    assert record.publications == (Publication(place="Praha", publisher="Kalich", date="2015"),)
    assert (record.edition, record.extent) == ("Vydání první", "305 stran : ilustrace ; 21 cm")
    assert faults(record) == {}


def test_an_article_names_its_journal_and_issue() -> None:
    record = converted(
        "100 1# $aNovák, Petr$4aut",
        "245 10 $aK původu slova čeština",
        "773 0# $tNaše řeč$x0027-8203$gRoč. 81, č. 3 (1998), s. 113-120$w(CZ)nr1",
        leader="00000naa a2200000 i 4500",
    )
    assert record.kind is RecordKind.ARTICLE
    assert record.related == (
        Related(
            relation="host",
            title="Naše řeč",
            part="Roč. 81, č. 3 (1998), s. 113-120",
            identifiers=("0027-8203", "(CZ)nr1"),
        ),
    )


def test_the_coded_place_in_the_host_is_a_note_if_the_place_is_in_words() -> None:
    record = converted("245 10 $aX", "773 0# $tMladá fronta$gRoč. 12, č. 157 (2001), s. 3$q12:157<3")
    assert record.related[0].part == "Roč. 12, č. 157 (2001), s. 3"
    assert kept(record) == {"773": "0# $q 12:157<3"}
    assert converted("245 10 $aX", "773 0# $tMladá fronta$q12:157<3").related[0].part == "12:157<3"


def test_a_serial_that_is_still_published_has_no_last_year() -> None:
    record = converted(
        "022 0# $a0027-8203$l0027-8203",
        "222 #0 $aNaše řeč",
        "245 00 $aNaše řeč :$blisty pro vzdělávání a tříbení jazyka českého",
        "264 #1 $aPraha :$bČeská akademie,$c1917-",
        "310 ## $a4x ročně",
        "780 00 $tKrok$x1234-5679",
        leader="00000nas a2200000 i 4500",
        fixed="240115c19179999xr qr|p|||||||0   a0cze d",
    )
    assert (record.kind, record.years) == (RecordKind.SERIAL, Years(first=1917))
    assert record.subtitle == "listy pro vzdělávání a tříbení jazyka českého"
    assert [(one.scheme, one.value) for one in record.identifiers] == [
        ("issn-l", "0027-8203"),
        ("issn", "0027-8203"),
    ]
    assert record.variants == (TitleVariant(kind="key", text="Naše řeč"),)
    assert record.related[0].relation == "preceding"
    assert kept(record) == {"310": "$a 4x ročně"}


@pytest.mark.parametrize(
    ("leader", "kind"),
    [
        ("00000nem a2200000 i 4500", RecordKind.MAP),
        ("00000ncm a2200000 i 4500", RecordKind.SCORE),
        ("00000njm a2200000 i 4500", RecordKind.MUSIC),
        ("00000nim a2200000 i 4500", RecordKind.SOUND),
        ("00000ntm a2200000 i 4500", RecordKind.MANUSCRIPT),
        ("00000nkm a2200000 i 4500", RecordKind.PICTURE),
        ("00000ngm a2200000 i 4500", RecordKind.FILM),
        ("00000npc a2200000 i 4500", RecordKind.COLLECTION),
        ("00000nam a2200000 i 4500", RecordKind.BOOK),
        ("   nam a22     i 4500", RecordKind.BOOK),
        ("-----nam-a22------i-4500", RecordKind.BOOK),
        ("?", RecordKind.OTHER),
    ],
)
def test_the_leader_determines_the_kind_of_the_record(leader: str, kind: RecordKind) -> None:
    assert converted("245 00 $aX", leader=leader).kind is kind


def test_a_leader_of_another_length_is_reported() -> None:
    assert "characters, not 24" in faults(converted("245 00 $aX", leader="   nam a22     i 4500"))["LDR"]


def test_leading_articles_are_dropped_for_sorting() -> None:
    assert converted("245 14 $aThe Czech language").sort_title == "czech language"
    assert converted("245 12 $aL'histoire").sort_title == "histoire"
    assert converted("245 10 $a\x98Die \x9cböhmischen Länder").sort_title == "bohmischen lander"
    assert converted("245 10 $a\x98Die \x9cböhmischen Länder").title == "Die böhmischen Länder"


@pytest.mark.parametrize(
    ("line", "sorted_by"),
    [
        ("245 14 $aal-\u02bcAdab", "adab"),
        ("245 14 $aal-\u02bfArab", "arab"),
        ("245 11 $a¿Qué es", "que es"),
        ("245 11 $a…and", "and"),
        ("245 11 $a\u2018Kniha\u2019", "kniha"),
        ("245 15 $a»Der Prozess«", "prozess"),
    ],
)
def test_a_sign_before_the_first_word_is_not_a_fault(line: str, sorted_by: str) -> None:
    record = converted(line)
    assert (record.sort_title, faults(record)) == (sorted_by, {})


@pytest.mark.parametrize(
    ("line", "sorted_by"), [("245 11 $a1984", "1984"), ("245 13 $a»Der Prozess«", "der prozess")]
)
def test_digits_and_letters_do_not_count_as_signs_before_the_first_word(line: str, sorted_by: str) -> None:
    record = converted(line)
    assert record.sort_title == sorted_by
    assert "are not a leading article" in faults(record)["245"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("245 1x $aThe Czech language", "'x', not a digit"),
        ("245 13 $aThe Czech language", "first 3 characters are not a leading article"),
        ("245 19 $aThe", "first 9 characters are not a leading article"),
    ],
)
def test_a_wrong_indicator_is_reported_and_the_whole_title_used_for_sorting(line: str, fault: str) -> None:
    record = converted(line)
    assert fault in faults(record)["245"]
    assert record.sort_title.startswith("the")


def test_names_and_numbers_of_parts_follow_the_title() -> None:
    record = converted("245 10 $aDějiny.$n2,$pStředověk :$bod počátků /$cJ. N.")
    assert (record.title, record.subtitle) == ("Dějiny. 2. Středověk", "od počátků")
    assert record.statement == "J. N."


def test_a_record_without_245_gets_another_title_and_a_note() -> None:
    record = converted("240 10 $aBible. $lČesky")
    assert record.title == "Bible. Česky"
    assert "no title" in faults(record)["245"]


def test_a_second_245_is_kept() -> None:
    record = converted("245 10 $aPrvní", "245 10 $aDruhý")
    assert record.title == "První"
    assert [(note.text, note.fault) for note in record.notes if note.field == "245"] == [
        ("$a Druhý", "a second title")
    ]


@pytest.mark.parametrize("line", ["245 00 $hx", "246 1# $hx", "700 1# $xx", "490 0# $lx", "653 ## $xx"])
def test_a_field_without_its_main_subfield_is_noted_once(line: str) -> None:
    assert [note.text for note in converted("245 10 $aX", line).notes if "x" in note.text.split()] != []
    assert len([note for note in converted("245 10 $aX", line).notes if note.field == line[:3]]) == 1


def test_an_archival_title_without_subfield_a_consists_of_its_form_and_dates() -> None:
    record = converted("245 00 $kLetter,$f1901 March 6,$bto Anna.")
    assert (record.title, record.subtitle) == ("Letter, 1901 March 6", "to Anna")
    assert faults(record) == {}
    assert converted("245 00 $aPapers,$f1901-1910.").title == "Papers"


def test_place_and_publisher_are_those_of_the_publication_in_any_order_of_fields() -> None:
    record = converted(
        "245 10 $aX",
        "264 #4 $c©1999",
        "264 #3 $aBrno :$bTiskárna",
        "264 #1 $c1998",
        "264 #1 $aPraha :$bVydavatel,$c1999",
    )
    values = values_of(record)
    assert (values["place"], values["publisher"], values["date_text"]) == ("Praha", "Vydavatel", "1998")
    assert [one.function for one in record.publications] == [
        "publication",
        "publication",
        "manufacture",
        "copyright",
    ]


def test_fields_in_other_scripts_are_joined_with_their_linked_fields() -> None:
    record = converted(
        "100 1# $6880-01$aDostojevskij, Fedor Michajlovič,$d1821-1881$4aut",
        "245 10 $6880-02$aBratʹja Karamazovy /$cF. M. Dostojevskij",
        "264 #1 $6880-03$aMoskva :$bEksmo,$c2005",
        "880 1# $6100-01/(N$aДостоевский, Фёдор Михайлович,$d1821-1881",
        "880 10 $6245-02/(N$aБратья Карамазовы /$cФ. М. Достоевский",
        "880 #1 $6264-03/(N$aМосква :$bЭксмо,$c2005",
        "880 ## $6500-00/(N$aПримечание",
        fixed="240115s2005    ru |||||||||||||||||rus d",
    )
    assert [one.name for one in record.contributors] == ["Dostojevskij, Fedor Michajlovič"]
    assert record.contributors[0].linked == "Достоевский, Фёдор Михайлович, 1821-1881"
    assert record.variants == (TitleVariant(kind="linked", text="Братья Карамазовы"),)
    assert record.statement == "F. M. Dostojevskij = Ф. М. Достоевский"
    assert [(one.publisher, one.other_script) for one in record.publications] == [
        ("Eksmo", False),
        ("Эксмо", True),
    ]
    assert Note(field="500", text="Примечание") in record.notes


def test_a_field_in_another_script_without_its_linked_field_is_a_separate_name() -> None:
    record = converted("245 10 $aX", "880 1# $6700-09/(N$aИванов, Иван")
    assert [one.name for one in record.contributors] == ["Иванов, Иван"]


def test_corporate_bodies_meetings_and_families_are_read() -> None:
    record = converted(
        "110 2# $aUniverzita Karlova.$bFilozofická fakulta$4isb",
        "245 10 $aSborník",
        "711 2# $aSlavistický sjezd$n(12. :$d1998 :$cKrakov)$4oth",
        "700 3# $aKinští (rod)",
        "720 ## $aPan Neznámý$eilustrátor",
    )
    assert [(one.name, one.kind, one.dates, one.titles) for one in record.contributors] == [
        ("Univerzita Karlova. Filozofická fakulta", "corporate", "", ""),
        ("Slavistický sjezd", "meeting", "1998", "12. : Krakov"),
        ("Kinští (rod)", "family", "", ""),
        ("Pan Neznámý", "unknown", "", ""),
    ]
    assert record.contributors[3].roles == ("ill",)


@pytest.mark.parametrize(
    ("subfields", "roles"),
    [
        ("$4aut", ("aut",)),
        ("$4aut$4ill", ("aut", "ill")),
        ("$epřekladatel", ("trl",)),
        ("$eautor.$4aut", ("aut",)),
        ("$4http://id.loc.gov/vocabulary/relators/edt", ("edt",)),
        ("$eopisovatel not", ("opisovatel not",)),
        ("$edir.", ("dir",)),
        ("$eIll.", ("ill",)),
        ("$eRed.", ("red",)),
        ("$4AUT", ("aut",)),
        ("$4http://id.loc.gov/vocabulary/relators/aut.html", ("aut",)),
        ("$eVerfasserIn$4aut", ("aut",)),
        ("$eHerausgeber:innen", ("edt",)),
        ("$eÜbersetzerin", ("trl",)),
        ("", ()),
    ],
)
def test_roles_are_read_from_codes_addresses_and_words(subfields: str, roles: tuple[str, ...]) -> None:
    assert converted("245 10 $aX", f"700 1# $aNovák, Jan{subfields}").contributors[0].roles == roles


@pytest.mark.parametrize(
    ("heading", "name", "titles", "subject"),
    [
        ("0# $aJan Pavel$bII.,$cpapež,$d1920-2005", "Jan Pavel II.", "papež", "Jan Pavel II., papež"),
        ("0# $aJan Pavel$bII., papež,$d1920-2005", "Jan Pavel II.", "papež", "Jan Pavel II., papež"),
        ("0# $aJohn Paul$bII,$cPope,$d1920-2005", "John Paul II", "Pope", "John Paul II, Pope"),
        ("0# $aИоанн Павел$bвторой,$d1920-2005", "Иоанн Павел второй", "", "Иоанн Павел второй"),
        ("1# $aHabsburský, Karel$bI.,$d1920-2005", "Habsburský, Karel I.", "", "Habsburský, Karel I."),
        ("1# $aNovák, Jan,$bIng.,$d1920-2005", "Novák, Jan", "Ing.", "Novák, Jan, Ing."),
    ],
)
def test_the_numeration_belongs_to_the_name(heading: str, name: str, titles: str, subject: str) -> None:
    record = converted(f"100 {heading}", "245 10 $aX", f"600 {heading}", f"700 {heading}$tSpisy")
    assert [(one.name, one.titles) for one in record.contributors] == [(name, titles)] * 2
    assert [one.text for one in record.subjects] == [f"{subject}, 1920-2005"]


def test_numeration_without_a_forename_is_no_name() -> None:
    record = converted("245 10 $aX", "700 0# $bIV.")
    assert (record.contributors, faults(record)) == ((), {"700": "a name without subfield a"})


def test_titles_and_authority_ids_are_stored_with_a_name() -> None:
    record = converted(
        "100 0# $aKarel$bIV.,$cčeský král,$d1316-1378$0(DE-588) 118560085$1http://viaf.org/viaf/1$7jk01052951",
        "245 10 $aVita Caroli",
    )
    assert record.contributors[0] == Contributor(
        name="Karel IV.",
        titles="český král",
        dates="1316-1378",
        authority_ids=("(DE-588)118560085", "http://viaf.org/viaf/1", "jk01052951"),
        main=True,
    )


def test_a_name_with_a_title_refers_to_a_work() -> None:
    record = converted("245 10 $aX", "700 12 $aHus, Jan,$d1371-1415.$tPostilla.$lČesky")
    assert (record.contributors[0].name, record.contributors[0].work) == ("Hus, Jan", "Postilla. Česky")


@pytest.mark.parametrize(
    ("fixed", "years"),
    [
        ("s1998    ", Years(first=1998, last=1998)),
        ("s19uu    ", Years(first=1900, last=1999)),
        ("m19982003", Years(first=1998, last=2003)),
        ("m19989999", Years(first=1998)),
        ("q14101420", Years(first=1410, last=1420)),
        ("c1917uuuu", Years(first=1917, last=1917)),
        ("u1917uuuu", Years(first=1917, last=1917)),
        ("|1998    ", Years(first=1371, last=1415)),
        ("d19171948", Years(first=1917, last=1948)),
        ("d1990uuuu", Years(first=1990)),
        ("i18309999", Years(first=1830)),
        ("k18309999", Years(first=1830)),
        ("d1990    ", Years(first=1990, last=1990)),
        ("q1990uuuu", Years(first=1990, last=1990)),
        ("t20102009", Years(first=2010, last=2010)),
        ("r19951848", Years(first=1995, last=1995)),
        ("e19980423", Years(first=1998, last=1998)),
        ("suuuu    ", Years(first=1371, last=1415)),
        ("s0000    ", Years(first=1371, last=1415)),
        ("nuuuuuuuu", Years(first=1371, last=1415)),
        ("|||||||||", Years(first=1371, last=1415)),
    ],
)
def test_years_are_read_from_008_or_else_from_the_imprint(fixed: str, years: Years) -> None:
    record = converted("245 10 $aX", "264 #1 $c[asi 1371-1415]", fixed=f"240115{fixed}{FIXED[15:]}")
    assert record.years == years
    assert record.date_text == "[asi 1371-1415]"


@pytest.mark.parametrize(
    ("fixed", "date", "years"),
    [
        ("|1998    ", "", Years(first=1998, last=1998)),
        (" 1998    ", "", Years(first=1998, last=1998)),
        ("||||||||| ", "1987.", Years(first=1987, last=1987)),
        ("z1998    ", "", Years(first=1998, last=1998)),
        ("||||||||| ", "189.", Years(first=1890, last=1899)),
        ("||||||||| ", "18..", Years(first=1800, last=1899)),
        ("s19uu    ", "[1987]", Years(first=1987, last=1987)),
        ("s19xx    ", "1987-1989", Years(first=1987, last=1989)),
        ("n19uu    ", "", Years(first=1900, last=1999)),
        ("s19uu    ", "[19--]", Years(first=1900, last=1999)),
        ("s19uu    ", "1987-2005", Years(first=1987, last=1999)),
        ("s19uu    ", "1875", Years(first=1900, last=1999)),
        ("m19uu9999", "<1973-c1980 >", Years(first=1973)),
        ("m19uu9999", "[1973]-", Years(first=1973)),
        ("m19uu1985", "1973-", Years(first=1973, last=1985)),
        ("m19uu9999", "1875-", Years(first=1900)),
        ("m19uu9999", "", Years(first=1900)),
        ("muuuu1950", "", Years(last=1950)),
        ("muuuu1950", "1948-1950", Years(first=1948, last=1950)),
        ("muuuu1950", "1960", Years(first=1960, last=1960)),
        ("muuuu19uu", "[před 1950]", Years(last=1950)),
        ("muuuu9999", "1948", Years(first=1948, last=1948)),
        ("s19uu    ", "[po roce 1950]", Years(first=1950, last=1999)),
        ("s19uu    ", "[před rokem 1945]", Years(first=1900, last=1999)),
    ],
)
def test_a_date_in_words_and_the_digits_of_008_complete_each_other(
    fixed: str, date: str, years: Years
) -> None:
    record = converted("245 10 $aX", f"260 ## $aPraha$c{date}", fixed=f"240115{fixed:9.9}{FIXED[15:]}")
    assert record.years == years


@pytest.mark.parametrize(
    ("fields", "date"),
    [
        (["264 #3 $aPraha$c1998"], "1998"),
        (["264 31 $aPraha$c1998"], "1998"),
        (["264 #4 $c©2001", "264 #3 $aPraha$c2000", "264 #2 $aBrno$c1999"], "1999"),
        (["264 #4 $c©2001", "264 #1 $aPraha$c2002"], "2002"),
        (["264 #1 $aPraha$c[datum vydání není známo]", "264 #4 $c©2003"], "©2003"),
        (["264 #1 $aPraha$c[s.a.]", "264 #4 $c©2004", "264 #2 $aBrno$c2003"], "2003"),
        (["264 #1 $aPraha$c[199-]", "264 #4 $c©1998"], "[199-]"),
    ],
)
def test_without_a_date_of_publication_the_date_of_another_statement_is_used(
    fields: list[str], date: str
) -> None:
    record = converted("245 10 $aX", *fields, fixed=None)
    assert (record.date_text, record.years) == (date, find_years(date))
    assert "264" not in faults(record)


def test_a_date_without_a_year_is_shown_and_reported_if_no_other_statement_has_a_year() -> None:
    record = converted("245 10 $aX", "264 #1 $c[s.a.]", "264 #3 $c[s.d.]", fixed=None)
    assert (record.date_text, record.years) == ("[s.a.]", Years())
    assert faults(record)["264"] == "no year recognized in this date"


def test_a_continuing_date_type_is_a_span_only_in_a_continuing_resource() -> None:
    fixed = f"240115c20059999{FIXED[15:]}"
    assert converted("245 10 $aX", fixed=fixed).years == Years(first=2005, last=2005)
    serial = converted("245 10 $aX", fixed=fixed, leader="00000nas a2200000 i 4500")
    assert serial.years == Years(first=2005)
    vague = f"240115c19uu9999{FIXED[15:]}"
    serial = converted("245 10 $aX", "264 #1 $c1973-", fixed=vague, leader="00000nas a2200000 i 4500")
    assert serial.years == Years(first=1973)
    unknown = f"240115cuuuu9999{FIXED[15:]}"
    serial = converted("245 10 $aX", "264 #1 $c[2004]-", fixed=unknown, leader="00000nas a2200000 i 4500")
    assert serial.years == Years(first=2004)
    integrating = converted("245 10 $aX", fixed=fixed, leader="00000nmi a2200000 i 4500")
    assert integrating.years == Years(first=2005)


@pytest.mark.parametrize(
    "fixed",
    [
        "240115s2015 xr a||||||||||001 0 cze d",
        "240115s2015 xr a 001 0 cze d",
        "240115s2015 xr cze",
        "240115s20152015xr a|| cze d",
    ],
)
def test_an_008_with_collapsed_blanks_is_read(fixed: str) -> None:
    record = converted("245 10 $aX", fixed=fixed)
    assert (record.years, record.country, record.languages) == (Years(first=2015, last=2015), "xr", ("cze",))
    assert "characters, not 40" in faults(record)["008"]


@pytest.mark.parametrize(
    ("fixed", "country", "languages"),
    [
        ("000428s2001    nyu      b    000 1deng", "nyu", ("eng",)),
        ("010327r20011813nyu      b    000 1deng", "nyu", ("eng",)),
        ("160310r20161816sz |||| s|||| 000 0 fre df", "sz", ("fre",)),
        ("240115s2015 xr a 001 0czed", "xr", ("cze",)),
        ("240115s2015 nyu a 001 1deng", "nyu", ()),
        ("980311s1997    us                1deng", "us", ("eng",)),
    ],
)
def test_an_008_of_another_length_never_results_in_a_wrong_language(
    fixed: str, country: str, languages: tuple[str, ...]
) -> None:
    record = converted("245 10 $aX", fixed=fixed)
    assert (record.country, record.languages) == (country, languages)
    assert "characters, not 40" in faults(record)["008"]


def test_brackets_of_a_meeting_are_removed_from_number_date_and_place() -> None:
    record = converted(
        "245 10 $aX", "111 2# $aSjezd$n(12. :$d2000 :$cBrno)", "711 2# $aSjezd$d(2000 :$cBrno)"
    )
    assert [(one.dates, one.titles) for one in record.contributors] == [
        ("2000", "12. : Brno"),
        ("2000", "Brno"),
    ]


@pytest.mark.parametrize("fixed", ["240115s1x98    ", "240115m20031998", "240115z1998    "])
def test_impossible_dates_in_008_are_reported(fixed: str) -> None:
    record = converted("245 10 $aX", "260 ## $aPraha$c1999", fixed=fixed + FIXED[15:])
    assert "no year in type and dates" in faults(record)["008"]
    assert record.years == Years(first=1999, last=1999)


def test_swapped_country_and_language_codes_are_corrected() -> None:
    swapped = converted("245 10 $aX", fixed="120730s1990----cze|||||||||||||||||xr |d")
    assert (swapped.country, swapped.languages) == ("xr", ("cze",))
    assert "interchanged" in faults(swapped)["008"]


def test_concatenated_language_codes_and_original_languages_are_read() -> None:
    record = converted("041 1# $aczeger$heng$hund", "245 10 $aX")
    assert (record.languages, record.original_languages) == (("cze", "ger"), ("eng",))
    assert kept(record) == {"041": "und"}


@pytest.mark.parametrize(
    ("line", "identifier"),
    [
        (
            "020 ## $a80-200-0129-8 (váz.)",
            Identifier(scheme="isbn", value="9788020001290", found="80-200-0129-8 (váz.)", qualifier="váz."),
        ),
        (
            "020 ## $a978-80-200-0129-0$qbrožováno",
            Identifier(
                scheme="isbn", value="9788020001290", found="978-80-200-0129-0", qualifier="brožováno"
            ),
        ),
        (
            "020 ## $z80-200-0129-8",
            Identifier(scheme="isbn", value="9788020001290", found="80-200-0129-8", state="cancelled"),
        ),
        (
            "020 ## $a80-200-0129-X",
            Identifier(scheme="isbn", value="802000129X", found="80-200-0129-X", state="invalid"),
        ),
        (
            "020 ## $aneuvedeno",
            Identifier(scheme="isbn", value="neuvedeno", found="neuvedeno", state="invalid"),
        ),
        (
            "024 7# $a10.1000/ABC.1$2doi",
            Identifier(scheme="doi", value="10.1000/abc.1", found="10.1000/ABC.1"),
        ),
        (
            "024 2# $aM-706500-25-9",
            Identifier(scheme="ismn", value="9790706500259", found="M-706500-25-9", state="invalid"),
        ),
        ("015 ## $acnb000123456$2cnb", Identifier(scheme="cnb", value="cnb000123456", found="cnb000123456")),
        ("035 ## $a(OCoLC)39001", Identifier(scheme="system", value="(OCoLC)39001", found="(OCoLC)39001")),
    ],
)
def test_identifiers_are_normalised_and_checked(line: str, identifier: Identifier) -> None:
    record = converted(line, "245 10 $aX")
    assert record.identifiers == (identifier,)
    assert ("check digit" in str(faults(record)) or "this is no" in str(faults(record))) == (
        identifier.state == "invalid"
    )


def test_each_isbn_of_a_list_in_one_subfield_is_an_identifier() -> None:
    record = converted("020 ## $a80-200-0129-8 (1. díl) ; 80-7106-239-8 (2. díl)", "245 10 $aX")
    assert [(one.value, one.qualifier, one.state) for one in record.identifiers] == [
        ("9788020001290", "1. díl", "valid"),
        ("8071062398", "2. díl", "invalid"),
    ]


def test_numbers_have_the_first_ten_qualifiers_of_their_field() -> None:
    qualifiers = [f"q{number}" for number in range(12)]
    record = converted(f"020 ## $a80-200-0129-8$q{'$q'.join(qualifiers)}", "245 10 $aX")
    assert record.identifiers[0].qualifier == ", ".join(qualifiers[:10])


def test_places_stay_with_their_publishers() -> None:
    record = converted(
        "245 10 $aX",
        "260 ## $aPraha ;$aBrno :$bAcademia ;$aBratislava :$bVeda,$cc1998.$e(Zlín :$fTiskárna,$g1999)",
    )
    assert record.publications == (
        Publication(place="Praha ; Brno", publisher="Academia"),
        Publication(place="Bratislava", publisher="Veda", date="c1998"),
        Publication(place="Zlín", publisher="Tiskárna", date="1999", function="manufacture"),
    )


def test_traced_and_untraced_series_are_read() -> None:
    record = converted(
        "245 10 $aX",
        "490 1# $a(Knižnice slovníků ;$vsv. 3)$x1234-5679",
        "830 #0 $aEdice Pramen ;$v12",
        "830 #0 $aEdice Pramen ;$v12",
        "800 1# $aNeruda, Jan.$tSpisy ;$v1",
    )
    assert record.series == (
        Series(title="Knižnice slovníků", number="sv. 3", issn="1234-5679"),
        Series(title="Edice Pramen", number="12"),
        Series(title="Neruda, Jan. Spisy", number="1"),
    )


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("Roč. 1994. Č. 3 (Sv. 25)", "Roč. 1994. Č. 3 (Sv. 25)"),
        ("(1998) 5", "(1998) 5"),
        ("(1998)5 (2)", "(1998)5 (2)"),
        ("(sv. 3) ;", "sv. 3"),
        ("(5.)", "5"),
        ("sv. 3)", "sv. 3"),
        ("sv. 3 (2001))", "sv. 3 (2001)"),
        ("[sv. 3]", "[sv. 3]"),
    ],
)
def test_brackets_that_belong_to_the_number_of_a_series_stay(written: str, number: str) -> None:
    assert converted("245 10 $aX", f"490 1# $aEdice ;$v{written}").series[0].number == number


def test_brackets_within_a_series_in_brackets_stay() -> None:
    record = converted("245 10 $aX", "490 1# $a(Edice (nová řada) ;$vsv. 3 (2001))")
    assert record.series == (Series(title="Edice (nová řada)", number="sv. 3 (2001)"),)


def test_thousands_of_series_are_converted_in_linear_time() -> None:
    """Quadratic time would be minutes."""
    record = converted(*(f"490 0# $aEdice {number % 8_000}" for number in range(16_000)))
    assert len(record.series) == 8_000


def test_words_beside_the_issn_of_a_series_are_kept() -> None:
    record = converted(
        "490 1# $aA$x0317-8471 (online) ;$v1", "830 #0 $aA$xISSN 0317-8471 ;$v1", "490 0# $aB$x1803-8271"
    )
    assert [one.issn for one in record.series] == ["0317-8471", "0317-8471", "1803-8271"]
    assert kept(record) == {"490": "$x 0317-8471 (online) ;"}


@pytest.mark.parametrize(
    ("line", "relation", "label"),
    [
        ("780 00 $tA", "preceding", ""),
        ("780 05 $tA", "preceding", "absorbed"),
        ("785 06 $tA", "succeeding", "split into"),
        ("785 07 $iSloučeno s:$tA", "succeeding", "Sloučeno s"),
        ("785 09 $tA", "succeeding", ""),
        ("776 08 $tA", "other form", ""),
    ],
)
def test_the_second_indicator_of_a_linking_entry_is_its_label(line: str, relation: str, label: str) -> None:
    assert converted(line).related == (Related(relation=relation, title="A", label=label),)


def test_a_linking_entry_without_text_is_ignored() -> None:
    assert converted("780 05 $6880-01").related == ()


def test_udc_and_ddc_are_the_sources_of_their_classes_whatever_the_edition() -> None:
    record = converted(
        "050 00 $aZ721$b.K5",
        "080 ## $a02(437.3)$2MRF",
        "080 ## $a027",
        "082 04 $a020.9437$2 23",
        "084 ## $aAN 50100$2rvk",
        "245 00 $aX",
    )
    assert [(one.text, one.source) for one in record.subjects] == [
        ("Z721", "lcc"), ("02(437.3)", "udc"), ("027", "udc"), ("020.9437", "ddc"), ("AN 50100", "rvk"),
    ]  # fmt: skip
    assert {number: kept(record)[number] for number in ("080", "082")} == {
        "080": "$2 MRF", "082": "04 $2 23",
    }  # fmt: skip


def test_a_class_without_a_number_is_noted_once() -> None:
    for line, rest in (("072 #7 $xDějiny$2Konspekt", "Dějiny Konspekt"), ("080 ## $2MRF", "$2 MRF")):
        notes = [note for note in converted("245 00 $aX", line).notes if note.field == line[:3]]
        assert [(note.text, note.fault) for note in notes] == [(rest, "a class without a number")]


def test_a_family_as_a_subject_has_the_kind_family() -> None:
    record = converted("600 34 $aKinští (rod)", "600 14 $aHus, Jan")
    assert [one.kind for one in record.subjects] == ["family", "person"]


def test_subjects_are_stored_with_sources_and_subdivisions() -> None:
    record = converted(
        "072 #7 $a811.16$xSlovanské jazyky$2Konspekt",
        "080 ## $a811.162.3",
        "245 10 $aX",
        "600 07 $aHus, Jan,$dasi 1371-1415$7jn19981001473$2czenas",
        "650 #0 $aCzech language$xHistory.",
        "651 #7 $aČechy$2czenas",
        "653 0# $ahistoriografie česká$afilozofie dějin",
        "655 #7 $aslovníky$7fd133448$2czenas",
    )
    assert record.subjects == (
        Subject(text="811.16 -- Slovanské jazyky", kind="category", source="Konspekt"),
        Subject(text="811.162.3", kind="class", source="udc"),
        Subject(
            text="Hus, Jan, asi 1371-1415", kind="person", source="czenas", authority_ids=("jn19981001473",)
        ),
        Subject(text="Czech language -- History", kind="topic", source="lcsh"),
        Subject(text="Čechy", kind="place", source="czenas"),
        Subject(text="historiografie česká", kind="keyword"),
        Subject(text="filozofie dějin", kind="keyword"),
    )
    assert record.genres == (
        Subject(text="slovníky", kind="genre", source="czenas", authority_ids=("fd133448",)),
    )


def test_the_number_of_an_authority_record_is_not_part_of_a_heading_or_note() -> None:
    record = converted(
        "245 10 $aX",
        "520 ## $aAnotace$94",
        "600 17 $aHus, Jan,$d1371-1415$9123",
        "650 #7 $aDějiny$zČesko$94711",
        "655 #7 $aromány$98",
    )
    headings = [one.text for one in (*record.subjects, *record.genres)]
    assert headings == ["Hus, Jan, 1371-1415", "Dějiny -- Česko", "romány"]
    assert Note(field="520", text="Anotace") in record.notes
    assert {number: kept(record)[number] for number in ("520", "600", "650", "655")} == {
        "520": "$9 4", "600": "17 $9 123", "650": "#7 $9 4711", "655": "#7 $9 8",
    }  # fmt: skip


def test_links_and_notes_are_read() -> None:
    record = converted(
        "245 10 $aX",
        "500 ## $aObsahuje bibliografii",
        "856 42 $uhttps://kramerius.example/1$yDigitalizovaný dokument",
        "856 40 $uC:\\soubor.pdf",
    )
    assert record.links == (
        Link(url="https://kramerius.example/1", label="Digitalizovaný dokument", relation="related"),
        Link(url="C:\\soubor.pdf", relation="resource"),
    )
    assert Note(field="500", text="Obsahuje bibliografii") in record.notes
    assert faults(record)["856"] == "this is not an http or ftp address"


def test_a_field_without_a_column_is_kept_with_its_subfields() -> None:
    record = converted("245 10 $aX$h[elektronický zdroj]", "910 ## $aABA001$b54 H 1", "Z30 ## $axyz")
    assert kept(record)["910"] == "$a ABA001 $b 54 H 1"
    assert kept(record)["245"] == "10 $h [elektronický zdroj]"
    assert kept(record)["Z30"] == "$a xyz"


def test_control_characters_are_removed_and_reported() -> None:
    record = converted("245 10 $aKni\x85ha")
    assert record.title == "Kni ha"
    assert "control characters" in faults(record)["245"]


def test_an_empty_record_reports_what_is_missing() -> None:
    record = converted(leader="", fixed=None)
    assert faults(record) == {"LDR": "no leader", "245": "no title (field 245, subfield a)"}


def test_the_leader_is_kept_in_the_notes() -> None:
    assert any(note.field == "LDR" and note.text == LEADER for note in converted("245 10 $aX").notes)
