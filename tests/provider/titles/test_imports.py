"""Imports: new, changed, removed and kept titles, refused entries, and conflicting claims."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from oai.errors import UsageError
from provider.models import UNLISTED, Access
from provider.titles.entries import READERS, CollectionEntry, NotDescribed, Read, Refused, TitleEntry
from provider.titles.ranges import RangeRules
from provider.titles.segments import claimed_urls
from tests.harvester.documentation import examples
from tests.provider.archive import Archive
from tests.provider.titles.conftest import Titles, entry

SITE = "http://www.example.cz/"


def test_a_repeated_import_changes_nothing(titles: Titles, archive: Archive) -> None:
    archive.add(SITE)
    one = entry(
        "1", SITE, publisher="Example", subjects=[{"name": "Hudba", "number": 9}], keywords=["a", "b"]
    )
    titles.bring(one, entry("2", "http://b.cz/"))
    before = titles["1"]
    plan = titles.plan(one, entry("2", "http://b.cz/"))
    assert (plan.new, plan.changed, plan.gone, plan.unchanged) == ([], [], [], 2)
    titles.bring(one, entry("2", "http://b.cz/"))
    assert titles["1"].datestamp == before.datestamp


def test_changed_fields_are_reported_and_only_public_ones_redate_the_title(
    titles: Titles, archive: Archive
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE, state="success"))
    before = titles["1"].datestamp
    (changed,) = titles.plan(entry("1", SITE, "http://b.cz/", state="vote", name="New")).changed
    assert set(changed.fields) == {"name", "state", "seeds"}
    titles.bring(entry("1", SITE, state="other"))
    assert (titles["1"].state, titles["1"].datestamp) == ("other", before)
    titles.bring(entry("1", SITE, name="New"))
    assert titles["1"].datestamp > before


@pytest.mark.parametrize(
    ("key", "saved"),
    [
        ("002499695", "2499695"),
        ("000", "0"),
        ("027.70", "27.7"),
        ("1234567890123456789", "1.23457E+18"),
        ("1234567890123456789", "1,23456789012346E+018"),
        ("1234567890123456789", "1234567890123450000"),
    ],
)
def test_a_key_that_a_spreadsheet_program_has_changed_is_refused_and_withdraws_nothing(
    titles: Titles, key: str, saved: str
) -> None:
    titles.bring(entry(key, SITE), entry("a"))

    plan = titles.plan(entry(saved, SITE), entry("a"))

    (refused,) = plan.refused
    assert (refused.place, plan.new, plan.gone, plan.unchanged) == (f"key {saved}", [], [], 1)
    assert f"one with the key {key}, which a spreadsheet program may have read as a number" in refused.reason


def test_keys_that_are_equal_as_numbers_may_be_those_of_two_titles(titles: Titles) -> None:
    titles.bring(entry("007", SITE))
    (new,) = titles.plan(entry("007", SITE), entry("7")).new
    assert new.entry.key == "7"
    titles.bring(entry("a", SITE))
    assert [one.entry.key for one in titles.plan(entry("a", SITE), entry("7")).new] == ["7"]


def test_numbers_that_a_spreadsheet_program_has_changed_are_warned_of(titles: Titles) -> None:
    titles.bring(entry("a", catalogue_number="002499695", classification=["004"], keywords=["1", "02"]))

    plan = titles.plan(entry("a", catalogue_number="2499695", classification=["4"], keywords=["1", "2"]))

    words = "a spreadsheet program may have read it as a number"
    assert plan.warnings == [
        f"key a: catalogue_number was '002499695' and becomes '2499695'; {words}",
        f"key a: classification was '004' and becomes '4'; {words}",
    ]
    assert titles.plan(entry("a", catalogue_number="2499696")).warnings == []


def test_a_title_missing_from_the_source_becomes_a_deleted_record_and_may_return(
    titles: Titles, archive: Archive
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE), entry("2", "http://b.cz/"))
    assert not titles["1"].deleted
    titles.bring(entry("2", "http://b.cz/"))
    assert titles["1"].gone
    assert titles["1"].deleted
    assert titles["1"].datestamp < UNLISTED
    titles.bring(entry("1", SITE), entry("2", "http://b.cz/"))
    assert not titles["1"].deleted


def test_what_a_seed_claims_does_not_grow_with_the_collections_of_its_title(titles: Titles) -> None:
    many = [f"Collection {number}" for number in range(500)]

    def claims(*collections: str) -> set[object]:
        titles.bring(entry("1", SITE, "http://b.cz/", collections=list(collections)))
        number = titles["1"].title_id
        with titles.database.session() as session:
            return {one.facts for one in claimed_urls(session, "test", [number], [])}

    few, all_of_them = claims("A"), claims(*many)
    assert few.isdisjoint(all_of_them)
    assert len(repr(all_of_them)) < 1000


def test_segments_of_seeds_and_carve_outs_are_stored_by_few_statements(titles: Titles) -> None:
    urls = [url for number in range(100) for url in (f"http://{number}.cz/", f"-http://{number}.cz/a")]
    titles.rules = RangeRules(carve_out=Access.WITHHELD)
    statements: list[str] = []

    def note(*event_of_a_statement: Any) -> None:
        statements.append(event_of_a_statement[2])

    event.listen(titles.database.engine, "before_cursor_execute", note)
    try:
        titles.bring(entry("1", *urls))
    finally:
        event.remove(titles.database.engine, "before_cursor_execute", note)
    assert len([one for one in statements if one.startswith("INSERT INTO title_segment")]) == 1


def test_changed_descriptions_of_collections_are_imported(titles: Titles) -> None:
    one = entry("1", SITE, collections=["Volby"])
    described = CollectionEntry(collection="Volby", annotation="old", position=2)
    titles.bring(one, described)
    assert titles.plan(one, described).changes_nothing
    # A second source cannot change a description of the first one.
    plan = titles.plan(entry("1", SITE), CollectionEntry(collection="volby!"), source="other")
    assert not plan.collections
    assert plan.warnings == ["collection 'volby!': the source 'test' describes its set, collection:volby"]

    changed = CollectionEntry(collection="Volby", annotation="new", picture="https://x.example/a.jpg")
    assert titles.plan(one, changed).collections.changed == {"collection:volby": changed}
    titles.bring(one, changed)
    # An incomplete read removes nothing.
    for unread in (Refused(place="line 2", reason="?"), NotDescribed(place="all", words="no right")):
        assert titles.plan(one, unread).changes_nothing
    assert titles.plan(one).collections.gone == {"collection:volby": "Volby"}
    titles.bring(one)
    assert titles.plan(one).changes_nothing
    assert titles.plan(one, described).collections.names == ["Volby"]


def test_collections_with_the_same_set_spec_or_none_are_reported(titles: Titles) -> None:
    found = [CollectionEntry(collection=name) for name in ("Volby", "VOLBY", "!!")]
    plan = titles.plan(entry("1", SITE), *found)
    assert list(plan.collections.changed) == ["collection:volby"]
    assert plan.warnings == [
        "collection 'VOLBY': 'Volby' has the same set, collection:volby",
        "collection '!!': its name has no letter or digit for a setSpec",
    ]


def test_a_line_may_describe_a_collection(tmp_path: Path) -> None:
    file = tmp_path / "titles.jsonl"
    file.write_text(
        '{"collection": "A", "position": 1}\n{"collection": "B", "picture": "javascript:x"}\n'
        '{"collection": "C", "picture": "http://x:port/"}\n'
    )
    first, second, third = READERS["jsonl"](file)
    assert first == CollectionEntry(collection="A", position=1)
    reason = "picture: not an http or https address"
    assert second == Refused(place="line 2", reason=reason)
    assert isinstance(third, Refused)
    assert "picture" in third.reason


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "contains no title"),
        ([entry("2", "http://b.cz/"), Refused(place="line 7", reason="?")], "1 entries could not be read"),
    ],
)
def test_no_title_is_removed_if_the_source_was_not_read_completely(
    titles: Titles, found: list[TitleEntry | Refused], words: str
) -> None:
    titles.bring(entry("1", SITE), entry("2", "http://b.cz/"))
    plan = titles.plan(*found)
    assert plan.gone == []
    assert words in str(plan.kept_because)


def test_entries_omitted_by_a_rule_do_not_prevent_the_removal_of_titles(titles: Titles) -> None:
    titles.bring(entry("1", SITE), entry("2", "http://b.cz/"))
    plan = titles.plan(entry("2", "http://b.cz/"), Refused(place="1", reason="declined", is_decision=True))
    assert [name for _, _, name in plan.gone] == ["Title 1"]


def test_an_import_does_not_change_titles_of_another_source(titles: Titles) -> None:
    titles.bring(entry("1", SITE), source="one")
    titles.bring(entry("2", "http://b.cz/"), source="other")
    assert not titles["1"].gone


def test_many_changes_need_approval(titles: Titles) -> None:
    many = [entry(str(number), f"http://n{number}.cz/") for number in range(30)]
    titles.bring(*many)
    plan = titles.plan(*many[:5])
    with pytest.raises(UsageError, match=r"change 0 and remove 25 of 30 titles.*--approve"):
        plan.check(20)
    titles.plan(*many[:12]).check(20)
    plan.check(100)


def test_a_repeated_key_is_refused_and_unknown_licences_and_seeds_cause_warnings(titles: Titles) -> None:
    plan = titles.plan(
        entry("1", SITE, licence="all rights reserved"), entry("1", "http://b.cz/"), entry("3", "no url")
    )
    assert [one.reason for one in plan.refused] == ["its key was used before, by 'Title 1'"]
    assert [one.licence for one in plan.new] == [None, None]
    assert ["rights reserved" in plan.warnings[0], "'no url' is not an http" in plan.warnings[1]] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("carve_out", "warnings"),
    [
        ("http://www.nkp.cz/stare.html", 1),
        ("https://nkp.cz/intern.php?id=5", 1),
        ("http://www.nkp.cz/stare/", 0),
        ("http://www.nkp.cz/stare/a.html", 0),
    ],
)
def test_a_carve_out_that_covers_a_seed_of_its_title_causes_a_warning(
    titles: Titles, carve_out: str, warnings: int
) -> None:
    plan = titles.plan(entry("web1", "http://www.nkp.cz/", "http://www.nkp.cz/stare/nove/", f"-{carve_out}"))
    assert [words.partition(", whose")[0] for words in plan.warnings] == [
        f"key web1: the carve-out {carve_out!r} means the same URLs as the seed 'http://www.nkp.cz/'"
    ] * warnings


def test_an_invalid_issn_or_language_code_causes_a_warning(titles: Titles) -> None:
    plan = titles.plan(
        entry("1", SITE, issn="ISSN: 0317 8471", languages=("cze",)),
        entry("2", "http://b.cz/", issn="1234-5678", languages=("cze", "čeština", "cs")),
        entry("3", "http://c.cz/", issn="issn 2434-561x"),
    )
    assert [one.entry.issn for one in plan.new] == ["0317-8471", "1234-5678", "2434-561X"]
    assert plan.warnings == [
        "key 2: the ISSN '1234-5678' is not valid; it is published as it is",
        "key 2: the language 'čeština' is not a code of ISO 639-2, such as 'cze'; it is published as it is",
        "key 2: the language 'cs' is not a code of ISO 639-2, such as 'cze'; it is published as it is",
    ]


def test_an_expired_contract_causes_only_a_warning(titles: Titles) -> None:
    over, valid = date(2000, 1, 31), date(9999, 1, 31)
    plan = titles.plan(
        entry("1", SITE, contract_to=over, licence="CC BY 4.0"),
        entry("2", "http://b.cz/", contract_to=over, public=False),
        entry("3", "http://c.cz/", contract_to=valid),
    )
    assert plan.warnings == [
        "key 1: its contract ended on 2000-01-31; it stays public, with its licence and access"
    ]
    assert (plan.new[0].entry.public, plan.new[0].licence) == (True, "cc-by-4.0")


def test_two_titles_that_claim_the_same_site_are_reported(titles: Titles, archive: Archive) -> None:
    archive.add(SITE)
    conflicts = titles.bring(entry("1", SITE), entry("2", "https://example.cz"))
    assert [one.range.low for one in conflicts] == ["cz,example)"]
    assert (titles["1"].captures, titles["2"].captures) == (1, 0)


def test_changed_rules_for_seeds_apply_after_an_import_without_changes(
    titles: Titles, archive: Archive
) -> None:
    archive.add("http://blog.example.cz/")
    titles.bring(entry("1", SITE))
    assert titles["1"].captures == 0
    titles.rules = RangeRules(host="domain")
    titles.bring(entry("1", SITE))
    assert titles["1"].captures == 1


CSV = "key,name,keywords,subjects,seeds,carve_outs,public,contract_to\n"
JSONL = '{"key": "1", "name": "A", "seeds": [{"url": "http://a.cz/"}]}\n'


def read(tmp_path: Path, kind: str, text: str | bytes) -> list[Read]:
    file = tmp_path / "titles"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(READERS[kind](file))


def test_the_json_lines_of_the_page_can_be_imported(tmp_path: Path) -> None:
    lines = "".join(example.code for example in examples("how-to/titles.md", "json"))
    assert [type(found) for found in read(tmp_path, "jsonl", lines)] == [TitleEntry, CollectionEntry]


def test_csv_may_be_separated_by_semicolons(tmp_path: Path) -> None:
    rows = '1;A, B;"x; y";;http://a.cz/;;;\n2;C;x; y;;http://c.cz/;;;\n'
    found, refused = read(tmp_path, "csv", "\ufeff" + CSV.replace(",", ";") + rows)
    assert isinstance(found, TitleEntry)
    assert (found.name, found.keywords) == ("A, B", ("x", "y"))
    assert isinstance(refused, Refused)
    assert (refused.place, refused.reason.partition(": ")[2]) == ("row 3 (key 2)", "more values than columns")


def test_csv_may_begin_with_the_sep_line_of_excel(tmp_path: Path) -> None:
    rows = "1;A;;;http://a.cz/;;;\n2;C;;;http://c.cz/;;ANO;\n"
    found, refused = read(tmp_path, "csv", "\ufeffsep=;\r\n" + CSV.replace(",", ";") + rows)
    assert isinstance(found, TitleEntry)
    assert isinstance(refused, Refused)
    assert (refused.place, refused.reason) == (
        "row 3 (key 2)",
        "public: 'ANO' is not understood; write true or false",
    )


def test_rows_of_csv_are_counted_as_in_a_spreadsheet(tmp_path: Path) -> None:
    rows = '1,"A\nB\nC",,,,,,\n\n,,,,,,,\n2,"D\r\nE",,,,,ANO,\n \'=3 ,F,,,,,NE,\n,G,,,,,,\n'
    found = read(tmp_path, "csv", CSV + rows)
    assert [one.place for one in found if isinstance(one, Refused)] == [
        "row 5 (key 2)",
        "row 6 (key '=3)",
        "row 7",
    ]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("csv", CSV + "1,Čas,,,,,,\n2,Říp,,,,,,\n3,C,,,,,,\n"),
        ("jsonl", JSONL + '{"key": "2", "name": "Čas"}\n{"key": "3", "name": "Říp"}\n'),
    ],
)
def test_a_file_in_another_encoding_is_refused_in_one_sentence(tmp_path: Path, kind: str, text: str) -> None:
    with pytest.raises(UsageError, match="titles: cannot be read: not in UTF-8; save the file as UTF-8"):
        read(tmp_path, kind, text.encode("cp1250"))
    # As if two files were joined: each of these entries can be named.
    mixed = text.encode() + text.partition("\n")[2].encode("cp1250")
    assert sum(isinstance(one, Refused) and "UTF-8" in one.reason for one in read(tmp_path, kind, mixed)) == 2


def test_csv_has_several_values_in_a_field(tmp_path: Path) -> None:
    row = "1,A,x; y,9: Hudba;Film,http://a.cz/ http://b.cz/,http://a.cz/shop/,false,2027-01-31\n"
    (found,) = read(tmp_path, "csv", "\ufeff" + CSV + row)
    assert isinstance(found, TitleEntry)
    assert found.keywords == ("x", "y")
    assert [(one.number, one.name) for one in found.subjects] == [(9, "Hudba"), (None, "Film")]
    assert [(one.url, one.kind.value) for one in found.seeds] == [
        ("http://a.cz/", "include"),
        ("http://b.cz/", "include"),
        ("http://a.cz/shop/", "carve-out"),
    ]
    assert (found.public, str(found.contract_to)) == (False, "2027-01-31")


@pytest.mark.parametrize(
    ("columns", "row", "reason"),
    [
        ("seeds,carve_outs", "http://a.cz/;http://b.cz/,", "seeds: separate URLs by blanks, not by ';'"),
        ("seeds,carve_outs", '"http://a.cz/, HTTPS://b.cz/",', "seeds: separate URLs by blanks, not by ','"),
        ("seeds,carve_outs", "http://a.cz/;,", "seeds: separate URLs by blanks, not by ';'"),
        ("seeds,carve_outs", "http://a.cz/ ; http://b.cz/,", "seeds: separate URLs by blanks, not by ';'"),
        ("seeds,carve_outs", ",http://a.cz/;ftp://a.cz/", "carve_outs: separate URLs by blanks, not by ';'"),
        ("seeds,collection", "http://a.cz/;http://b.cz/,A", "seeds: separate URLs by blanks, not by ';'"),
    ],
)
def test_urls_that_are_not_separated_by_blanks_are_refused(
    tmp_path: Path, columns: str, row: str, reason: str
) -> None:
    (refused,) = read(tmp_path, "csv", f"key,name,{columns}\n1,A,{row}\n")
    assert isinstance(refused, Refused)
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("seeds", "urls"),
    [
        ("http://a.cz/b;c?d=1;2", ["http://a.cz/b;c?d=1;2"]),
        (
            '"http://a.cz/1,2.html http://b.cz/?u=http://c.cz/"',
            ["http://a.cz/1,2.html", "http://b.cz/?u=http://c.cz/"],
        ),
        (
            '"[""http://a.cz/b;"", ""http://a.cz/;http://b.cz/""]"',
            ["http://a.cz/b;", "http://a.cz/;http://b.cz/"],
        ),
    ],
)
def test_urls_may_contain_separators(tmp_path: Path, seeds: str, urls: list[str]) -> None:
    (found,) = read(tmp_path, "csv", f"key,name,seeds\n1,A,{seeds}\n")
    assert isinstance(found, TitleEntry)
    assert [one.url for one in found.seeds] == urls


def test_carve_outs_may_be_a_json_list(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "csv", 'key,name,seeds,carve_outs\n1,A,http://a/,"[""http://a/x;""]"\n')
    assert isinstance(found, TitleEntry)
    assert [(one.url, one.kind) for one in found.seeds][1:] == [("http://a/x;", "carve-out")]


@pytest.mark.parametrize(
    ("kind", "text", "place", "reason"),
    [
        ("jsonl", JSONL + "{", "line 2", "cannot be read: not JSON"),
        ("jsonl", JSONL + '{"key": ' + "[" * 500_000, "line 2", "nested too deeply"),
        ("jsonl", JSONL + '{"key": ' + "1" * 5_000, "line 2", "a number has too many digits"),
        ("jsonl", JSONL.encode() + '{"key": "2"}'.encode("utf-16-be"), "line 2", "not in UTF-8; save"),
        ("jsonl", JSONL + '{"key": "2"}\n', "line 2", "name: the value is missing"),
        (
            "jsonl",
            JSONL + '{"key": "2", "name": "B", "nmae": "B"}\n',
            "line 2",
            "nmae: there is no",
        ),
        ("jsonl", JSONL + "[]\n", "line 2", "write an object"),
        ("jsonl", JSONL.encode() + b'{"key": "2", "name": "\xe9"}\n', "line 2", "not in UTF-8; save"),
        ("csv", CSV + "1,A,,,,,,\n2,B,,,,,,31.1.2027\n", "row 3 (key 2)", "write a date, such as 2025-12-31"),
        ("csv", CSV + "1,A,,,,,,\n2,B,,,,,,,,,\n", "row 3 (key 2)", "more values than columns"),
        ("csv", CSV + "1,A,,,,,,\n2,B,,,http://b.cz/", "row 3 (key 2)", "fewer values than columns"),
        ("csv", CSV + '1,A,,,,,,\n2,"B,,,,,,\n', "row 3 and all after it", "unexpected end"),
        ("csv", CSV.encode() + b"2,\xbelu\xbb,,,,,,\n1,A,,,,,,\n", "row 2 (key 2)", "not in UTF-8; save"),
        (
            "archive-it",
            '[{"id": 1, "url": "http://a.cz/"}, {"id": 2}]',
            "seed 2",
            "object with id and url",
        ),
        ("archive-it", '[{"id": 1, "url": "http://a.cz/"}, 5]', "seed 2", "object with id and url"),
        (
            "archive-it",
            '[{"id": 1, "url": "http://a.cz/"}, {"id": 2, "url": "x", "metadata": {"Title": ["B"]}}]',
            "seed 2",
            "metadata are not lists of objects",
        ),
    ],
)
def test_unreadable_entries_are_reported_and_the_others_imported(
    tmp_path: Path, kind: str, text: str | bytes, place: str, reason: str
) -> None:
    taken, refused = sorted(read(tmp_path, kind, text), key=lambda one: isinstance(one, Refused))
    assert isinstance(taken, TitleEntry)
    assert isinstance(refused, Refused)
    assert place in refused.place
    assert reason in refused.reason


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("csv", "key,title,seeds\n", "no column may be called 'title'; the columns are access, "),
        ("csv", "key,seeds\n", "columns are missing: name"),
        ("csv", "key,name,seeds,key\n", "several columns are called 'key'"),
        ("csv", "key,name,seeds" + ",x" * 100, "called 'x', 'x', 'x', 'x', 'x'; the columns"),
        ("csv", "key,n\xe1zev,seeds\n".encode("cp1250"), "not CSV in UTF-8; save the file as CSV in UTF-8"),
        ("csv", "key,name,seeds\n".encode("utf-16-be"), "not CSV in UTF-8"),
        ("csv", b"PK\x03\x04\0\0", "not CSV in UTF-8"),
        ("archive-it", "[" + "1" * 5_000 + "]", "a number has too many digits"),
        ("archive-it", "{}", "not a list of seeds"),
        ("archive-it", "<html>", "not JSON"),
    ],
)
def test_a_file_in_another_format_is_refused(
    tmp_path: Path, kind: str, text: str | bytes, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        read(tmp_path, kind, text)


def test_rows_without_values_are_skipped(tmp_path: Path) -> None:
    rows = "1,A,,,http://a.cz/,,,\n" + ",,,,,,,\n , ,,,,,,\n\n,,,,,,,,,\n"
    (found,) = read(tmp_path, "csv", CSV + rows)
    assert isinstance(found, TitleEntry)


@pytest.mark.parametrize(("kind", "text"), [("jsonl", "x\n" * 10_001), ("csv", CSV + "x\n" * 10_001)])
def test_a_file_with_too_many_unreadable_lines_is_refused(tmp_path: Path, kind: str, text: str) -> None:
    with pytest.raises(
        UsageError, match=r"more than 10,000 entries cannot be read; the first: (line 1|row 2 \(key x\)): "
    ):
        read(tmp_path, kind, text)


def test_metadata_of_archive_it_are_imported(tmp_path: Path) -> None:
    seed = """[{"id": 7, "url": "http://a.cz/", "publicly_visible": true, "metadata": {
        "Title": [{"value": "A"}, {"value": "B"}],
        "Creator": [{"value": "C"}], "Subject": [{"value": "S"}]}}]"""
    (found,) = read(tmp_path, "archive-it", seed)
    assert isinstance(found, TitleEntry)
    assert (found.key, found.name, found.alternative_names, found.publisher) == ("7", "A", ("B",), "C")
    assert [one.name for one in found.subjects] == ["S"]
