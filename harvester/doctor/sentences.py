"""What each fact means, in plain words: a table of sentences, with advice to the administrator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from harvester.doctor.findings import Fact, Grade


@dataclass(frozen=True, kw_only=True)
class Wording:
    """A sentence with the places of its fact's values, and what the administrator could do."""

    grade: Grade
    text: str
    advice: str = ""


def _good(text: str) -> Wording:
    return Wording(grade=Grade.GOOD, text=text)


def _odd(text: str, advice: str) -> Wording:
    return Wording(grade=Grade.ODD, text=text, advice=advice)


def _bad(text: str, advice: str) -> Wording:
    return Wording(grade=Grade.BAD, text=text, advice=advice)


def _unknown(text: str) -> Wording:
    return Wording(grade=Grade.UNKNOWN, text=text)


_CODES: Final = ("bad verb", "bad argument", "bad token", "bad format", "bad identifier")

SENTENCES: Final[Mapping[str, Wording]] = MappingProxyType(
    {
        "identify.well": _good("The repository says who it is: %(name)s."),
        "identify.odd": _odd(
            "The answer to Identify has faults: %(text)s", "Mend the answer to Identify (section 4.2)."
        ),
        "version.well": _good("It speaks OAI-PMH 2.0."),
        "version.other": _bad(
            "It gives its protocol version as %(version)s.", "Offer version 2.0 of the protocol."
        ),
        "base url.well": _good("It calls itself by the address that was asked."),
        "base url.other": _odd(
            "It calls itself %(told)s.", "Let Identify give the address at which the repository answers."
        ),
        "redirects.none": _good("The address answers by itself."),
        "redirects.some": _odd(
            "The address leads on to %(target)s.", "Tell harvesters the new address; keep the old one alive."
        ),
        "content type.well": _good("Answers are text/xml."),
        "content type.other": _odd(
            "Answers are sent as %(type)s.", "Send answers as text/xml (section 3.1.2.1)."
        ),
        "email.well": _good("There is an address to write to: %(email)s."),
        "email.none": _odd(
            "There is no address to write to.", "Give at least one adminEmail in Identify (section 4.2)."
        ),
        "earliest.well": _good("The earliest datestamp is %(date)s."),
        "earliest.wrong": _odd(
            "The earliest datestamp is given as %(date)s, which does not fit the granularity.",
            "Write earliestDatestamp in the repository's granularity.",
        ),
        "earliest.later": _bad(
            "Records are older than the earliest datestamp, %(date)s: one is of %(older)s.",
            "Give an earliestDatestamp that no record is older than; harvesters begin there.",
        ),
        "granularity.second": _good("Datestamps are exact to the second."),
        "granularity.day": _good("Datestamps are exact to the day."),
        "granularity.untrue": _bad(
            "Identify promises %(promised)s, but %(count)s of %(of)s datestamps differ, such as %(such)s.",
            "Write all datestamps in the granularity that Identify promises (section 3.3).",
        ),
        "granularity.unknown": _bad(
            "The granularity is given as %(told)s, which is none of the two that there are.",
            "Give YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ in Identify.",
        ),
        "deletions.persistent": _good("Deletions are kept for ever."),
        "deletions.transient": _odd(
            "Deletions are kept for some time only: a full harvest is needed now and then.",
            "Keep deletions for ever if you can (deletedRecord persistent).",
        ),
        "deletions.no": _odd(
            "Deletions are not told: only a full harvest finds what disappeared.",
            "Keep deletions if you can (deletedRecord persistent).",
        ),
        "deletions.unknown": _odd(
            "It does not say what becomes of deletions, but %(told)s.",
            "Give no, transient or persistent as deletedRecord in Identify.",
        ),
        "response date.well": _good("Answers tell their time in UTC."),
        "response date.wrong": _bad(
            "Answers tell their time as %(told)s, which is not UTC to the second.",
            "Write responseDate as YYYY-MM-DDThh:mm:ssZ: harvesters ask on from there (section 3.2).",
        ),
        "clock.well": _good("The server's clock is right."),
        "clock.ahead": _bad(
            "The server's clock is %(seconds)s seconds ahead: changes of that time may be missed.",
            "Set the server's clock, and write responseDate in UTC.",
        ),
        "clock.behind": _odd(
            "The server's clock is %(seconds)s seconds behind.",
            "Set the server's clock, and write responseDate in UTC.",
        ),
        "formats.well": _good("It offers %(count)s formats, oai_dc among them."),
        "formats.no dc": _odd(
            "It does not offer oai_dc.", "Offer oai_dc: every repository has to (section 3.4)."
        ),
        "formats.failed": _odd(
            "It does not list its formats: %(text)s", "Mend ListMetadataFormats (section 4.4)."
        ),
        "records.well": _good("Records come well-formed: %(count)s on the first page."),
        "records.none": _unknown("There is no record yet, so most things could not be looked at."),
        "records.faulty": _bad(
            "%(count)s of the records on the first page cannot be read; the first: %(text)s",
            "Mend these records; the raw bytes are in the harvester's run.",
        ),
        "records.failed": _bad("Records cannot be listed: %(text)s", "Mend ListRecords (section 4.5)."),
        "encoding.well": _good("Answers are in UTF-8."),
        "encoding.wrong": _bad(
            "Answers are not in clean UTF-8: %(text)s",
            "Send UTF-8, without control characters (section 3.1).",
        ),
        "schema.well": _good("All of %(count)s records looked at fit their schema."),
        "schema.faulty": _odd(
            "%(faulty)s of %(count)s records looked at do not fit their schema; the first: %(text)s",
            "Let records fit the schema that the repository announces.",
        ),
        "schema.unknown": _unknown("There was no schema to be had: %(text)s"),
        "page size.well": _good("A page has %(count)s records."),
        "page size.small": _odd(
            "A page has %(count)s records only: harvesting takes many requests.",
            "Give 100 to 500 records on a page.",
        ),
        "page size.all": _odd(
            "All %(count)s records come in one answer.", "Divide long lists into pages of 100 to 500 records."
        ),
        "size told.told": _good("It tells how long the list is: %(size)s records."),
        "size told.untold": _odd(
            "It does not tell how long a list is: whether everything came cannot be proved.",
            "Give completeListSize with each resumptionToken (section 3.5).",
        ),
        "token.well": _good("Lists go on from page to page."),
        "token.failed": _bad(
            "The list does not go on after the first page: %(text)s",
            "Mend the resumption tokens (section 3.5).",
        ),
        "token.repeats": _bad(
            "The second page has records of the first one again.", "Mend the resumption tokens (section 3.5)."
        ),
        "token.one page": _unknown("The list has one page only, so tokens could not be looked at."),
        "token again.same": _good("A token may be used again and gives the same page."),
        "token again.other": _bad(
            "A token that is used again gives another page: a broken harvest cannot be resumed.",
            "Give the same page for the same token (section 3.5).",
        ),
        "token again.refused": _bad(
            "A token can be used once only: a broken harvest has to begin anew.",
            "Let at least the last token be used again (section 3.5).",
        ),
        "token expiry.told": _good("It tells until when a token is good: %(date)s."),
        "token expiry.short": _odd(
            "A token is good for %(minutes)s minutes only: long harvests may have to begin anew.",
            "Let tokens be good for a day at least.",
        ),
        "token expiry.untold": _odd(
            "It does not tell until when a token is good.", "Give expirationDate with each resumptionToken."
        ),
        "identifiers.same": _good("ListIdentifiers lists what ListRecords does."),
        "identifiers.other": _bad(
            "ListIdentifiers lists other records than ListRecords.", "Let both list the same (section 4.3)."
        ),
        "identifiers.failed": _odd(
            "Identifiers cannot be listed: %(text)s", "Mend ListIdentifiers (section 4.3)."
        ),
        "get record.well": _good("A single record can be fetched."),
        "get record.other": _bad(
            "GetRecord gives another record than was asked for.", "Mend GetRecord (section 4.1)."
        ),
        "get record.failed": _odd(
            "A single record cannot be fetched: %(text)s", "Mend GetRecord (section 4.1)."
        ),
        "from.inclusive": _good("`from` includes its own day or second."),
        "from.exclusive": _bad(
            "`from` leaves out what changed at that very time: changes can be missed.",
            "Include both bounds (section 2.7.1).",
        ),
        "from.ignored": _bad(
            "`from` is not heeded: everything comes each time.", "Heed `from` (section 2.7.1)."
        ),
        "from.failed": _bad(
            "`from` is refused: %(text)s", "Take `from` in your granularity (section 2.7.1)."
        ),
        "until.inclusive": _good("`until` includes its own day or second."),
        "until.exclusive": _odd(
            "`until` leaves out its own day or second.", "Include both bounds (section 2.7.1)."
        ),
        "until.ignored": _odd("`until` is not heeded.", "Heed `until` (section 2.7.1)."),
        "until.failed": _odd(
            "`until` is refused: %(text)s", "Take `until` in your granularity (section 2.7.1)."
        ),
        "before earliest.well": _good("There is nothing before the earliest datestamp, and it says so."),
        "before earliest.odd": _odd(
            "Asked for what is before the earliest datestamp, it answers %(text)s.",
            "Answer noRecordsMatch, and give a true earliestDatestamp.",
        ),
        "sets.some": _good("It has %(count)s sets."),
        "sets.many": _good("It has %(count)s sets and more."),
        "sets.none": _good("It has no sets, and says so."),
        "sets.empty": _odd(
            "Its list of sets is empty.", "Answer noSetHierarchy where there are no sets (section 4.6)."
        ),
        "sets.failed": _odd("Its sets cannot be listed: %(text)s", "Mend ListSets (section 4.6)."),
        "set.well": _good("The set %(set)s gives its own records."),
        "set.empty": _good("The set %(set)s has no records, and says so."),
        "set.other": _bad(
            "The set %(set)s gives records whose headers do not name it.",
            "Name all sets in the headers (section 2.5).",
        ),
        "set.failed": _odd("The set %(set)s cannot be harvested: %(text)s", "Mend harvesting by set."),
        **{f"{code}.well": _good("It answers %(code)s, as it should.") for code in _CODES},
        **{
            f"{code}.other": _odd(
                "It answers %(text)s instead of %(code)s.", "Answer with the error %(code)s."
            )
            for code in _CODES
        },
        "post.well": _good("Requests by POST are answered, too."),
        "post.failed": _odd(
            "Requests by POST are not answered: %(text)s", "Take POST as well as GET (section 3.1.1)."
        ),
        "gzip.well": _good("Answers come compressed."),
        "gzip.none": _odd("Answers are not compressed.", "Compress answers by gzip: it saves nine tenths."),
        "speed.well": _good("A page takes %(seconds)s seconds."),
        "speed.slow": _odd("A page takes %(seconds)s seconds.", "Look for what makes list requests slow."),
    }
)
"""By subject and what was found of it."""


def grade_of(fact: Fact) -> Grade:
    """What the fact means; unknown where a newer version wrote it."""
    wording = SENTENCES.get(fact.key)
    return wording.grade if wording else Grade.UNKNOWN


def in_words(fact: Fact, translate: Callable[[str], str] = str) -> str:
    """The fact as a sentence; `translate` gives the sentence with its places in another language."""
    wording = SENTENCES.get(fact.key)
    return translate(wording.text) % _Values(fact.values) if wording else fact.key


def advice_for(fact: Fact, translate: Callable[[str], str] = str) -> str:
    """What the repository's administrator could do; nothing where all is well."""
    wording = SENTENCES.get(fact.key)
    return translate(wording.advice) % _Values(fact.values) if wording and wording.advice else ""


class _Values(dict[str, Any]):
    """A report of another version may lack a value."""

    def __missing__(self, name: str) -> str:
        return "–"  # noqa: RUF001 a dash on purpose
