import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harvester.probing.case import SUBJECTS
from harvester.probing.diagnose import diagnose
from harvester.probing.findings import Fact, Grade, Profile, Report
from harvester.probing.report import SENTENCES, advice_for, grade_of, in_words, letter, troubles
from harvester.reading.errors import TransportError
from oai.datestamps import format_datestamp, parse_datestamp, utc_now
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, Item, many, serve

Arguments = dict[str, str]

_USED = """<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-01-01T00:00:00Z</responseDate>
<request/><error code="badResumptionToken">used</error></OAI-PMH>"""


async def _no_pause(_seconds: float) -> None:
    """Return at once instead of pausing."""


async def _examined(repository: FakeRepository) -> Report:
    async with serve(repository) as served:
        return await diagnose(served.url, Settings(), sleep=_no_pause)


def _found(report: Report) -> dict[str, str]:
    return {fact.subject: fact.found for fact in report.facts}


def _once(verb_has: str, change: Callable[[bytes], bytes]) -> Callable[[Arguments, bytes], bytes | None]:
    return lambda arguments, body: change(body) if verb_has in arguments.get("verb", "") else None


async def test_a_good_repository_has_few_troubles_and_the_usual_profile() -> None:
    report = await _examined(FakeRepository(items=many(130), page_size=100, sets=["maps"]))

    found = _found(report)
    assert len(found) == len(report.facts) >= 30
    assert (found["granularity"], found["from"], found["until"]) == ("second", "inclusive", "inclusive")
    assert (found["token"], found["token again"], found["get record"]) == ("well", "same", "well")
    assert not [fact for fact in report.facts if grade_of(fact) is Grade.BAD]
    assert (report.profile.method, report.profile.slice, report.profile.incremental) == (0, None, True)


async def test_a_report_has_no_credentials_of_the_base_url() -> None:
    async with serve(FakeRepository(items=many(3))) as served:
        report = await diagnose(served.url.replace("://", "://me:s%40cret@"), Settings(), sleep=_no_pause)

    assert report.base_url == served.url
    assert _found(report)["base url"] == "well"
    assert "cret" not in str(report.as_json())


async def test_a_token_that_can_be_used_only_once_suggests_slices() -> None:
    used: set[str] = set()

    def once(arguments: Arguments, _body: bytes) -> bytes | None:
        token = arguments.get("resumptionToken")
        if token is None or token not in used:
            used.update({token} if token else ())
            return None
        return _USED.encode()

    report = await _examined(FakeRepository(items=many(30), fault=once))

    assert _found(report)["token again"] == "refused"
    assert report.profile.slice == "month"
    assert "token again.refused" in report.profile.why


async def test_ignored_bounds_suggest_full_harvests() -> None:
    repository = FakeRepository(
        items=[*many(3), Item(identifier="oai:x:new", datestamp="2025-01-01T00:00:00Z")]
    )

    def deaf(arguments: Arguments, _body: bytes) -> bytes | None:
        if not {"from", "until"} & arguments.keys():
            return None
        rest = {name: value for name, value in arguments.items() if name not in {"from", "until"}}
        return repository.answer(rest).encode()

    repository.fault = deaf
    report = await _examined(repository)

    assert _found(report)["from"] == "ignored"
    assert report.profile.incremental is False


@pytest.mark.parametrize("written", ["{day}T{time}.463317+00:00", "{day}T{time}.5Z", "{day} {time}"])
async def test_an_inexact_response_date_is_a_fault_but_allows_incremental_harvests(written: str) -> None:
    day, _, time = utc_now().isoformat()[:19].partition("T")

    report = await _examined(FakeRepository(items=many(3), now=written.format(day=day, time=time)))

    fact = next(fact for fact in troubles(report) if fact.subject == "response date")
    assert fact.key == "response date.wrong"
    assert in_words(fact) in letter(report)
    assert _found(report)["clock"] == "well"
    assert report.profile.incremental is True
    assert "response date.wrong" not in report.profile.why


async def test_the_clock_is_compared_with_a_response_date_that_has_an_offset() -> None:
    late = (utc_now() + timedelta(hours=2)).isoformat()

    report = await _examined(FakeRepository(items=many(3), now=late))

    assert _found(report)["clock"] == "ahead"


async def test_a_response_date_without_a_time_says_nothing_about_the_clock() -> None:
    report = await _examined(FakeRepository(items=many(3), now="2024-01-01"))

    assert _found(report)["response date"] == "wrong"
    assert "clock" not in _found(report)
    assert report.profile.incremental is True


async def test_a_response_date_that_harvests_cannot_read_suggests_full_harvests() -> None:
    report = await _examined(FakeRepository(items=many(3), now="Mon, 30 Nov 2026"))

    assert _found(report)["response date"] == "unreadable"
    assert report.profile.incremental is False
    assert "response date.unreadable" in report.profile.why


def _dated(hours: float) -> Callable[[Arguments, bytes], bytes]:
    """Return a fault: the datestamps in answers are so many hours later than those by which lists select."""

    def later(found: re.Match[bytes]) -> bytes:
        moment = parse_datestamp(found[1].decode()).moment + timedelta(hours=hours)
        return f"<datestamp>{format_datestamp(moment)}</datestamp>".encode()

    return lambda _arguments, body: re.sub(rb"<datestamp>(.*?)</datestamp>", later, body)


def _of_today(*minutes: int) -> list[Item]:
    """Return a record for each age in minutes."""
    return [
        Item(identifier=f"oai:x:{age}", datestamp=format_datestamp(utc_now() - timedelta(minutes=age)))
        for age in minutes
    ]


async def test_datestamps_later_than_the_answer_are_reported_instead_of_bounds() -> None:
    report = await _examined(FakeRepository(items=_of_today(15), fault=_dated(1)))

    found = _found(report)
    assert found["datestamps"] == "future"
    assert not {"from", "until"} & found.keys()
    assert "in UTC, not in local time" in letter(report)
    assert "Include both bounds" not in letter(report)


@pytest.mark.parametrize(("hours", "bound"), [(2, "from"), (-5, "until")])
async def test_older_datestamps_in_local_time_are_not_taken_for_excluded_bounds(
    hours: float, bound: str
) -> None:
    report = await _examined(FakeRepository(items=many(3), fault=_dated(hours)))

    assert _found(report)[bound] == "shifted"
    assert "exclusive" not in {_found(report)["from"], _found(report).get("until")}
    fact = next(fact for fact in report.facts if fact.subject == bound)
    assert "local time" in in_words(fact)
    assert advice_for(fact) in letter(report)
    assert report.profile.incremental is True


@pytest.mark.parametrize("day", [False, True])
async def test_datestamps_in_local_time_behind_utc_are_not_taken_for_an_ignored_from(*, day: bool) -> None:
    """The list from a datestamp of New York begins five hours earlier."""
    repository = FakeRepository(items=_of_today(2000, 2220, 3640), fault=_dated(-5))
    if day:
        dates = ("2024-05-03T03:00:00Z", "2024-05-02T02:00:00Z", "2024-05-01T01:00:00Z")
        items = [Item(identifier=f"oai:x:{date}", datestamp=date) for date in dates]
        earlier = _dated(-5)
        repository = FakeRepository(
            items=items,
            granularity="YYYY-MM-DD",
            fault=lambda arguments, body: re.sub(
                rb"(<datestamp>.{10}).*?<", rb"\1<", earlier(arguments, body)
            ),
        )
    report = await _examined(repository)

    assert _found(report)["from"] == "offset"
    assert report.profile.incremental is True
    fact = next(fact for fact in report.facts if fact.subject == "from")
    assert "local time" in in_words(fact)
    assert advice_for(fact) in letter(report)


async def test_a_from_in_the_future_that_is_refused_is_not_taken_for_an_ignored_one() -> None:
    earlier = _dated(-5)
    repository = FakeRepository(items=_of_today(400, 500, 600))

    def refuse_future(arguments: dict[str, str], body: bytes) -> bytes:
        if arguments.get("from", "") > format_datestamp(utc_now()):
            error = rb'<error code="badArgument">from is in the future</error>'
            return re.sub(rb"<(List\w+|error).*</(List\w+|error)>", error, body, flags=re.DOTALL)
        return earlier(arguments, body)

    repository.fault = refuse_future
    assert _found(await _examined(repository))["from"] == "offset"


async def test_a_from_that_is_ignored_is_recognised_among_records_of_one_day() -> None:
    repository = FakeRepository(items=_of_today(600, 720, 900))
    repository.fault = lambda arguments, _body: repository.answer(
        {name: value for name, value in arguments.items() if name != "from"}
    ).encode()
    report = await _examined(repository)

    assert _found(report)["from"] == "ignored"


async def test_bounds_are_checked_with_a_record_that_is_not_dated_in_the_future() -> None:
    wrong = Item(identifier="oai:x:wrong", datestamp="2999-01-01T00:00:00Z")

    report = await _examined(FakeRepository(items=[*_of_today(600, 900), wrong]))

    found = _found(report)
    assert (found["datestamps"], found["from"], found["until"]) == ("future", "inclusive", "inclusive")


async def test_datestamps_are_not_in_the_future_if_only_the_answer_is_dated_too_early() -> None:
    report = await _examined(FakeRepository(items=many(3), now="1970-01-01T00:00:00Z"))

    found = _found(report)
    assert (found["datestamps"], found["from"]) == ("well", "inclusive")


def _exclusive(repository: FakeRepository, bound: str, step: timedelta) -> None:
    """Let the bound exclude its own second or day: it is applied as if moved by `step`."""

    def narrower(arguments: Arguments, _body: bytes) -> bytes | None:
        if bound not in arguments:
            return None
        asked = parse_datestamp(arguments[bound])
        moved = format_datestamp(asked.moment + step, asked.granularity)
        return repository.answer(arguments | {bound: moved}).encode()

    repository.fault = narrower


@pytest.mark.parametrize(("bound", "seconds", "other"), [("from", 1, "until"), ("until", -1, "from")])
async def test_a_bound_that_excludes_its_own_second_is_reported(bound: str, seconds: int, other: str) -> None:
    repository = FakeRepository(items=many(3))
    _exclusive(repository, bound, timedelta(seconds=seconds))

    found = _found(await _examined(repository))

    assert (found[bound], found[other]) == ("exclusive", "inclusive")


async def test_a_bound_that_excludes_its_own_day_may_also_be_a_local_day() -> None:
    repository = FakeRepository(
        items=[Item(identifier="oai:x:1", datestamp="2024-01-02")], granularity="YYYY-MM-DD"
    )
    _exclusive(repository, "from", timedelta(days=1))

    report = await _examined(repository)

    fact = next(fact for fact in report.facts if fact.subject == "from")
    assert fact.found == "unclear"
    assert "excludes its own day" in in_words(fact)
    assert "local time" in in_words(fact)


async def test_a_wrong_granularity_is_reported_with_an_example() -> None:
    items = [Item(identifier="oai:x:1", datestamp="2024-01-01")]

    report = await _examined(FakeRepository(items=items))

    fact = next(fact for fact in report.facts if fact.subject == "granularity")
    assert fact.found == "untrue"
    assert "2024-01-01" in in_words(fact)


async def test_lists_that_fail_although_single_records_work_suggest_the_other_method() -> None:
    broken = _once("ListRecords", lambda _body: b"<html>500</html>")

    report = await _examined(FakeRepository(items=many(5), fault=broken))

    assert _found(report)["records"] == "failed"
    assert report.profile.method == 1


async def test_an_empty_repository_is_not_a_fault() -> None:
    report = await _examined(FakeRepository())

    assert _found(report)["records"] == "none"


async def test_an_unreachable_server_is_an_error() -> None:
    async with serve(FakeRepository()) as served:
        gone = served.url

    with pytest.raises(TransportError):
        await diagnose(gone, Settings(), sleep=_no_pause)


async def test_diagnostics_pause_between_two_requests_and_count_them() -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    async with serve(FakeRepository(items=many(3))) as served:
        report = await diagnose(served.url, Settings(), sleep=note)
        asked = len(served.asked)

    assert set(pauses) == {0.5}
    # The request by POST is not counted by the fake repository, which accepts only GET.
    assert report.requests == asked + 1
    assert len(pauses) == report.requests - 1


async def test_a_report_is_restored_from_json_and_the_letter_names_each_problem() -> None:
    report = await _examined(FakeRepository(items=many(30), sizes=False))

    again = Report.from_json(report.as_json())

    assert again is not None
    assert again.as_json() == report.as_json()
    text = letter(report)
    assert report.base_url in text
    for fact in troubles(report):
        assert advice_for(fact) in text


def test_a_letter_explains_section_numbers_only_if_it_has_some() -> None:
    facts = [Fact(subject="speed", found="slow", values={"seconds": 9})]
    report = Report(
        base_url="https://telc.example/oai",
        examined=datetime(2026, 1, 2, tzinfo=UTC),
        requests=20,
        seconds=12.5,
        facts=facts,
        profile=Profile(),
    )

    without = letter(report)
    with_some = letter(replace(report, facts=[*facts, Fact(subject="token again", found="refused")]))

    assert "Section numbers" not in without
    assert "(section 3.5)" in with_some
    assert "Section numbers" in with_some


def test_foreign_values_in_the_row_are_not_a_report() -> None:
    others: list[object] = [None, "x", {}, {"facts": 3}, {"facts": [{}], "profile": {}}]
    for odd in others:
        assert Report.from_json(odd) is None


def test_every_sentence_belongs_to_a_subject() -> None:
    assert {key.partition(".")[0] for key in SENTENCES} == set(SUBJECTS)


_WITH_AMPERSAND = _once("ListRecords", lambda body: body.replace(b"Title 7 ", b"Title & 7 "))
_WITHOUT_IDENTIFIER = _once(
    "ListRecords",
    lambda body: body.replace(b"<identifier>oai:fake.example:7</identifier>", b"<identifier/>&"),
)


async def test_unreadable_records_are_neither_missing_in_the_list_of_identifiers_nor_on_the_page() -> None:
    report = await _examined(FakeRepository(items=many(120), page_size=60, fault=_WITH_AMPERSAND))

    facts = {fact.subject: fact for fact in report.facts}
    assert (facts["records"].key, facts["records"].values["count"]) == ("records.faulty", 1)
    assert facts["identifiers"].key == "identifiers.same"
    assert facts["page size"].values["count"] == 60


async def test_other_identifiers_are_found_beside_an_unreadable_record() -> None:
    def fault(arguments: Arguments, body: bytes) -> bytes | None:
        if arguments.get("verb") == "ListIdentifiers":
            return body.replace(b"oai:fake.example:3<", b"oai:fake.example:other<")
        return _WITH_AMPERSAND(arguments, body)

    assert _found(await _examined(FakeRepository(items=many(9), fault=fault)))["identifiers"] == "other"


async def test_nothing_is_said_of_the_list_of_identifiers_if_an_unreadable_record_has_none() -> None:
    report = await _examined(FakeRepository(items=many(9), fault=_WITHOUT_IDENTIFIER))

    assert "identifiers" not in _found(report)


def test_our_own_words_among_the_values_are_translated() -> None:
    words = {"a list": "seznam", "nothing": "(nic)"}
    facts = {
        "seznam": Fact(subject="bad verb", found="other", values={"text": "a list", "code": "badVerb"}),
        "(nic)": Fact(subject="content type", found="other", values={"type": "nothing"}),
    }

    for expected, fact in facts.items():
        assert expected in in_words(fact, lambda text: words.get(text, text))


async def test_records_before_the_earliest_datestamp_are_counted() -> None:
    repository = FakeRepository(items=many(3))

    def deaf(arguments: Arguments, _body: bytes) -> bytes | None:
        rest = {name: value for name, value in arguments.items() if name != "until"}
        return repository.answer(rest).encode() if rest != arguments else None

    repository.fault = deaf

    fact = next(fact for fact in (await _examined(repository)).facts if fact.subject == "before earliest")
    assert (fact.key, fact.values) == ("before earliest.listed", {"count": 3})
