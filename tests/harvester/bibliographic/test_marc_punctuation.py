"""ISBD and AACR2 punctuation, and marks of non-sorting words, in records as libraries publish them."""

# ruff: noqa: RUF001 Arabic letters on purpose

import pytest

from harvester.bibliographic.punctuation import clean, unmarked
from harvester.bibliographic.record import Contributor, Publication, Series, Subject, TitleVariant
from tests.harvester.bibliographic.marc import converted


@pytest.mark.parametrize(
    "written",
    ["Hus, Jan", "Hus, Jan.", "Hus, Jan,", "Hus, Jan.,", "Hus, Jan ;", "Hus, Jan :", "Hus, Jan /",
     "Hus, Jan =", "Hus, Jan .", " Hus,  Jan. "],
)  # fmt: skip
def test_a_person_has_one_spelling_whatever_punctuation_follows_the_name(written: str) -> None:
    record = converted("245 10 $aX", f"700 1# $a{written}")
    assert [one.name for one in record.contributors] == ["Hus, Jan"]


def test_marks_of_writing_direction_are_not_part_of_a_name_or_title() -> None:
    record = converted(
        "100 1# $6880-01$aMahfuz, Najib,\u200f$d1911-2006.\u200f",
        "245 10 $6880-02$aKitab al-hayah",
        "880 1# $6100-01/(3/r$a\u200fنجيب محفوظ،\u200f$d1911-2006.\u200f",
        "880 10 $6245-02/(3/r$a\u200fكتاب الحياة /\u200f$c\u202bابن سينا.\u202c",
    )
    assert record.contributors == (
        Contributor(name="Mahfuz, Najib", dates="1911-2006", linked="نجيب محفوظ, 1911-2006", main=True),
    )
    assert record.variants == (TitleVariant(kind="linked", text="كتاب الحياة"),)
    assert record.statement == "ابن سينا"
    assert not [note for note in record.notes if note.fault]


def test_a_name_in_decomposed_letters_is_the_same_name() -> None:
    assert clean("Nova\u0301k, Petr.") == "Nov\u00e1k, Petr"


@pytest.mark.parametrize(
    "text",
    [
        "Novák, J.", "Sartre, J.-P.", "Wolf, Friedrich A.", "Davis, Sammy, Jr.", "Horn, J. Ch.", "Smith, Wm.",
        "Brabec, Jiří ... et al.", "Karel Čapek aj.", "Wiley & Sons, Inc.", "Vydavatelství X, s.r.o.",
        "SNTL, n.p.", "Státní nakl.", "[S.l.", "Cambridge, Mass.", "Washington, D.C.", "2. vyd.", "3rd ed.",
        "Praha a okolí atd.", "20. stol.", "Echa ...", "A ještě…", "U.S.A.", "Wörterbuch usw.", "2 изд.",
    ],
)  # fmt: skip
def test_the_full_stop_of_an_initial_abbreviation_or_ellipsis_is_kept(text: str) -> None:
    assert clean(text) == text
    assert clean(f"{text} /") == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("1871-1961.", "1871-1961"), ("1962-.", "1962-"), ("c2001.", "c2001"), ("[1998?].", "[1998?]"),
        ("Quo vadis?.", "Quo vadis?"), ("Vlk.", "Vlk"), ("Li, Wu.", "Li, Wu"), ("23 cm.", "23 cm"),
        ("BBC.", "BBC"), ("R.U.R.", "R.U.R."), ("July the 6th.", "July the 6th"),
        ("World War II.", "World War II"),
        ("Karel IV. /", "Karel IV."), ("Konec....", "Konec..."), ("Apple Inc..", "Apple Inc."),
        ("Рубина, Дина.", "Рубина, Дина"), ("林行止.", "林行止"), ("Praha. -", "Praha"), ("Ill.", "Ill"),
    ],
)  # fmt: skip
def test_a_final_full_stop_that_closes_the_field_is_removed(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_many_signs_at_the_end_are_removed_unless_another_one_closes_the_field() -> None:
    """Only the last 40 characters are read, but they took seconds: the time doubled with each sign."""
    assert clean("Title" + " :" * 19) == "Title"
    closed = "Title" + " :" * 19 + "+"
    assert [clean(closed) for _ in range(1000)] == [closed] * 1000


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("222 #0 $aMusic store$b(Pardubice)", "Music store (Pardubice)"),
        ("210 0# $aMus. store$b(Pardubice)", "Mus. store (Pardubice)"),
        (
            "240 10 $aSerenády,$mdechové nástroje,$nop. 44,$rd moll.",
            "Serenády, dechové nástroje, op. 44, d moll",
        ),
        (
            "730 0# $aPreludes,$mpiano,$nop. 28.$kSelections;$oarr.",
            "Preludes, piano, op. 28. Selections; arr.",
        ),
        ("130 0# $aBible.$pN.Z.,$lčesky", "Bible. N.Z., česky"),
        ("240 10 $aBible$pN.Z.$lčesky /", "Bible. N.Z. česky"),
        ("246 3# $aPraha :$bprůvodce", "Praha : průvodce"),
    ],
)
def test_other_titles_have_the_punctuation_of_their_field(line: str, text: str) -> None:
    assert [one.text for one in converted("245 10 $aX", line).variants] == [text]


def test_commas_of_a_uniform_title_stay_in_names_and_subjects() -> None:
    work = "$tSymfonie,$nč. 9, op. 95,$re moll"
    record = converted("245 10 $aX", f"700 12 $aDvořák, Antonín.{work}", f"600 14 $aDvořák, Antonín.{work}")
    assert record.contributors[0].work == "Symfonie, č. 9, op. 95, e moll"
    assert record.subjects[0].text == "Dvořák, Antonín. Symfonie, č. 9, op. 95, e moll"


def test_each_part_of_a_record_is_stored_without_punctuation() -> None:
    record = converted(
        "110 1# $aUnited States.$bCongress.$bSenate.",
        "245 10 $aDějiny Prahy.$nII,$pNovověk /$cJan Novák.",
        "250 ## $a3. vyd.",
        "260 ## $aPraha ;$aBrno :$bNakl. Academia,$c1998.",
        "440 #0 $aKnižnice.",
        "600 10 $aHus, Jan,$d1371-1415.",
        "610 20 $aU.S.$bCongress.",
        "650 #0 $aHistory.",
        "650 #0 $aHistory$xSources.",
        "700 1# $aCoolidge, Calvin,$d1872-1933.",
    )
    assert record.title == "Dějiny Prahy. II. Novověk"
    assert record.edition == "3. vyd."
    assert record.publications == (
        Publication(place="Praha ; Brno", publisher="Nakl. Academia", date="1998"),
    )
    assert record.series == (Series(title="Knižnice"),)
    assert [one.text for one in record.subjects] == [
        "Hus, Jan, 1371-1415", "U.S. Congress", "History", "History -- Sources",
    ]  # fmt: skip
    assert [(one.name, one.dates) for one in record.contributors] == [
        ("United States. Congress. Senate", ""), ("Coolidge, Calvin", "1872-1933"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "title", "sorting"),
    [
        ("<<Der>> Prozess", "Der Prozess", "prozess"),
        ("<<The >>castle", "The castle", "castle"),
        ("\u00acDie\u00ac Verwandlung", "Die Verwandlung", "verwandlung"),
        ("\x98L'\x9chistoire", "L'histoire", "histoire"),
        ("\x88Das \x89Schloss", "Das Schloss", "schloss"),
        ("<<Europe>>", "Europe", "europe"),
        ("Logik: p \u00ac q", "Logik: p \u00ac q", "logik p q"),
    ],
)
def test_marks_of_non_sorting_words_are_removed_and_the_words_ignored_in_sorting(
    written: str, title: str, sorting: str
) -> None:
    record = converted(f"245 10 $a{written}")
    assert (record.title, record.sort_title) == (title, sorting)
    assert not [note for note in record.notes if note.fault]


def test_marks_of_non_sorting_words_are_removed_from_names_subjects_and_series() -> None:
    record = converted(
        "100 1# $aDroste-Hülshoff, Annette <<von>>",
        "245 10 $aX",
        "490 0# $a<<Die>> Reihe",
        "653 ## $a<<Das>> Buch",
    )
    assert record.contributors == (Contributor(name="Droste-Hülshoff, Annette von", main=True),)
    assert record.series == (Series(title="Die Reihe"),)
    assert record.subjects == (Subject(text="Das Buch", kind="keyword"),)


@pytest.mark.parametrize(
    ("line", "subtitle"),
    [
        ("245 10 $aPraha =$bPrague :$ba guide", "a guide"),
        ("245 10 $aPraha$b= Prague /$cJ. N.", ""),
        ("245 10 $aPraha :$bprůvodce = Prague /$cJ. N.", "průvodce"),
        ("245 10 $aPraha$h[text] =$bPrague /$cJ. N.", ""),
    ],
)
def test_a_parallel_title_is_a_variant_and_not_a_subtitle(line: str, subtitle: str) -> None:
    record = converted(line, "246 31 $aPrague")
    assert (record.title, record.subtitle) == ("Praha", subtitle)
    assert record.variants == (TitleVariant(kind="varying", text="Prague", label="parallel title"),)


@pytest.mark.parametrize("piece", [". ,", ":", "-", "+", " -", "\x98", "<<", "\u00ac", "IV ", "a. "])
def test_long_texts_of_punctuation_are_cleaned_in_bounded_time(piece: str) -> None:
    """Quadratic time would be minutes for 200,000 characters."""
    text = piece * (200_000 // len(piece)) + "+"
    assert len(clean(unmarked(text))) <= len(text)
