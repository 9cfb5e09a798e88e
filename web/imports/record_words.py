"""Qualifiers, values and faults of bibliographic records, in the reader's language."""

from typing import Final

from web.site.i18n import _, mark

_INTRODUCTIONS: Final = (
    # of other titles (MARC 246)
    mark("portion of title"), mark("parallel title"), mark("distinctive title"), mark("other title"),
    mark("cover title"), mark("added title page title"), mark("caption title"), mark("running title"),
    mark("spine title"),
    # of earlier titles (MARC 780)
    mark("continues in part"), mark("supersedes"), mark("supersedes in part"),
    mark("formed by the union of"), mark("absorbed"), mark("absorbed in part"), mark("separated from"),
    # of later titles (MARC 785)
    mark("continued in part by"), mark("superseded by"), mark("superseded in part by"), mark("absorbed by"),
    mark("absorbed in part by"), mark("split into"), mark("merged with"), mark("changed back to"),
)  # fmt: skip
_FAULTS: Final = (
    # of any format
    mark("the check digit of this %(value)s is wrong"), mark("this is not a valid %(value)s"),
    mark("no year recognized in this date"), mark("control characters, which are removed"),
    mark("text between the elements"),
    # of Dublin Core
    mark("no title (dc:title)"), mark("nothing but punctuation"), mark("a name without letters"),
    mark("unknown language"),
    # of MARC: the record, its leader and control fields
    mark("no bibliographic record found"),
    mark("another bibliographic record in the same collection; only the first one has a row"),
    mark("an element that is not part of MARCXML"), mark("no leader"), mark("a second leader"),
    mark("the leader has %(value)s characters, not 24"), mark("a control field with an invalid tag"),
    mark("field 008 has %(value)s characters, not 40"), mark("country and language are interchanged"),
    mark("no year in type and dates of 008 (positions 6 to 14)"),
    # of MARC: data fields
    mark("a data field with an invalid tag"), mark("indicator 1 is %(value)s, not one character"),
    mark("indicator 2 is %(value)s, not one character"), mark("<%(value)s> instead of a subfield"),
    mark("a subfield with the invalid code %(value)s"), mark("no title (field 245, subfield a)"),
    mark("a second title"), mark("a title without subfield a"), mark("a name without subfield a"),
    mark("a series without a title"), mark("a subject without a heading"), mark("a class without a number"),
    mark("this is not an http or ftp address"),
    mark("the indicator for nonfiling characters is %(value)s, not a digit"),
    mark("the first %(value)s characters are not a leading article"),
    mark("indicator 2 is %(value)s, not a function from 0 to 4"),
)  # fmt: skip
"""The faults that converters record in notes, in the words in which the tables have them."""
_VALUE: Final = "%(value)s"


def labels() -> dict[str, str]:
    """Return the names of a value's qualifiers; those of other formats are shown as they are."""
    return {
        "kind": _("kind"), "roles": _("roles"), "dates": _("dates"), "titles": _("additions to the name"),
        "authority_ids": _("authority"), "work": _("work"), "main": _("main entry"),
        "linked": _("in another script"), "other_script": _("in another script"), "label": _("label"),
        "function": _("function"),
        "number": _("volume"), "source": _("vocabulary"), "scheme": _("kind of number"),
        "found": _("in the record"), "state": _("validity"), "qualifier": _("qualifier"),
        "relation": _("relation"), "author": _("author"), "part": _("part"),
        "publication": _("publication"), "identifiers": _("numbers"), "field": _("field"),
        "fault": _("fault"), "issn": "ISSN",
    }  # fmt: skip


def values() -> dict[str, str]:
    """Return the names of values that Zatva assigns, which are not codes of the record."""
    return _subjects_and_numbers() | _titles_and_relations() | {text: _(text) for text in _INTRODUCTIONS}


def _subjects_and_numbers() -> dict[str, str]:
    return {
        # kinds of names and subjects
        "person": _("person"), "family": _("family"), "corporate": _("corporate body"),
        "meeting": _("meeting"), "title": _("title"), "event": _("event"), "topic": _("topic"),
        "place": _("place"), "chronology": _("period"), "keyword": _("keyword"), "class": _("class"),
        "category": _("category"), "genre": _("genre"), "occupation": _("occupation"),
        "function": _("function"), "curriculum": _("curriculum objective"), "local": _("local"),
        "unknown": _("unknown"),
        # numbers and their validity
        "valid": _("valid"), "cancelled": _("cancelled"), "invalid": _("invalid"), "isbn": "ISBN",
        "issn": "ISSN", "issn-l": "ISSN-L", "ismn": "ISMN", "doi": "DOI", "ean": "EAN", "isrc": "ISRC",
        "lccn": "LCCN", "sici": "SICI", "upc": "UPC", "uri": _("address (URI)"),
        "control_number": _("control number"), "system": _("number in another system"),
        "bibliography": _("number in the national bibliography"),
        "agency": _("number of the national bibliographic agency"),
        "publisher_number": _("publisher's number"), "True": _("yes"),
    }  # fmt: skip


def _titles_and_relations() -> dict[str, str]:
    return {
        # kinds of other titles
        "uniform": _("uniform title"), "varying": _("varying title"), "key": _("key title"),
        "abbreviated": _("abbreviated title"), "former": _("former title"),
        "alternative": _("alternative title"), "linked": _("in another script"),
        "translated": _("translated title"), "collective": _("collective title"),
        "analytical": _("title of a part"),
        # relations of other publications and of links
        "series": _("series"), "subseries": _("subseries"), "original": _("original work"),
        "source": _("source"), "translation": _("translation"), "supplement": _("supplement"),
        "main work": _("main work"),
        "host": _("host publication"), "part": _("part"), "other edition": _("other edition"),
        "other form": _("other form"), "issued with": _("issued with"), "preceding": _("earlier title"),
        "succeeding": _("later title"), "data source": _("data source"), "related": _("related"),
        "resource": _("the publication itself"), "version": _("other version"), "other": _("other"),
        # functions of statements of publication
        "production": _("production"), "publication": _("publication"), "distribution": _("distribution"),
        "manufacture": _("manufacture"), "copyright": _("copyright"),
    }  # fmt: skip


def roles() -> dict[str, str]:
    """Return the names of the most frequent relator codes; others are shown as they are."""
    return {
        "arr": _("arranger"), "art": _("artist"), "aui": _("author of introduction"), "aut": _("author"),
        "cmp": _("composer"), "com": _("compiler"), "cre": _("creator"), "ctb": _("contributor"),
        "edt": _("editor"), "fmo": _("former owner"), "ill": _("illustrator"), "oth": _("other role"),
        "pbl": _("publisher"), "pht": _("photographer"), "prt": _("printer"),
        "ths": _("thesis supervisor"), "trl": _("translator"),
    }  # fmt: skip


def fault(text: str) -> str:
    """Return a fault recorded by a converter in the reader's language; an unknown one as it is."""
    for message in _FAULTS:
        before, place, after = message.partition(_VALUE)
        if text == message:
            return _(message)
        if place and text.startswith(before) and text.endswith(after):
            return _(message) % {"value": text[len(before) : len(text) - len(after)]}
    return text
