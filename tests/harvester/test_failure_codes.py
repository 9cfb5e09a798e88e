"""Causes of failures as codes: from the error to the row, and to the text for librarians."""

from collections.abc import Callable

import pytest

from harvester.harvest.models import Quarantined
from harvester.reading import errors
from harvester.reading.errors import TransportKind
from harvester.rules.rule_files import RuleFileError
from harvester.sru.answers import SruFormatError, SruQueryError
from harvester.vocabulary import Level, Method
from oai.errors import (
    DatabaseNotReadyError,
    InterruptedRunError,
    StrictCheckError,
    UsageError,
    failure_of,
)
from oai.failures import Failure, FailureCode, explained
from tests.harvester.fake_repository import Item
from tests.harvester.library import Library

URL = "http://x.example/oai?verb=GetRecord&identifier=oai:x:1"
ERRORS: list[tuple[Exception, FailureCode, str]] = [
    (errors.TransportError(URL, TransportKind.DNS, "no such host"), FailureCode.HOST_UNKNOWN, "name"),
    (errors.TransportError(URL, TransportKind.REFUSED, "no"), FailureCode.CONNECTION_REFUSED, "refused"),
    (errors.TransportError(URL, TransportKind.PRIVATE, "no"), FailureCode.ADDRESS_PRIVATE, "private"),
    (errors.HttpStatusError(URL, 404), FailureCode.HTTP_GONE, "gone"),
    (errors.HttpStatusError(URL, 401), FailureCode.HTTP_FORBIDDEN, "forbidden"),
    (errors.HttpStatusError(URL, 202), FailureCode.HTTP_FORBIDDEN, "forbidden"),
    (errors.HttpStatusError(URL, 405, bot_check=True), FailureCode.HTTP_FORBIDDEN, "forbidden"),
    (errors.HttpStatusError(URL, 500), FailureCode.HTTP_SERVER_ERROR, "server"),
    (errors.HttpStatusError(URL, 503), FailureCode.SERVER_BUSY, "busy"),
    (errors.HttpStatusError(URL, 400), FailureCode.HTTP_STATUS, "http"),
    (errors.ServerBusyError(URL, 503, 60), FailureCode.SERVER_BUSY, "busy"),
    (errors.NotOaiPmhError(URL, "an HTML page", b"<html>"), FailureCode.NOT_OAI_PMH, "not oai"),
    (
        errors.NotOaiPmhError(URL, "an HTML page", b"<TITLE>Just a moment...</TITLE>"),
        FailureCode.HTTP_FORBIDDEN,
        "forbidden",
    ),
    (errors.MalformedAnswerError(URL, "not well-formed"), FailureCode.MALFORMED_ANSWER, "broken"),
    (errors.oai_error(URL, "badArgument", "odd"), FailureCode.BAD_REQUEST, "argument"),
    (errors.oai_error(URL, "badResumptionToken", ""), FailureCode.BAD_TOKEN, "token"),
    (errors.oai_error(URL, "cannotDisseminateFormat", ""), FailureCode.FORMAT_NOT_OFFERED, "format"),
    (errors.oai_error(URL, "noSetHierarchy", ""), FailureCode.NO_SETS, "set"),
    (errors.oai_error(URL, "madeUp", "by the server"), FailureCode.REPOSITORY_ERROR, "other"),
    (SruQueryError(URL, "diagnostic 10", "syntax"), FailureCode.BAD_REQUEST, "argument"),
    (SruFormatError(URL, "diagnostic 66", "mods"), FailureCode.FORMAT_NOT_OFFERED, "format"),
    (errors.RepositoryBusyError("busy"), FailureCode.REPOSITORY_BUSY, "running"),
    (RuleFileError("rules.xml", "odd"), FailureCode.RULES, "rules"),
    (DatabaseNotReadyError("gone"), FailureCode.DATABASE, "database"),
    (UsageError("impossible"), FailureCode.REQUEST_INVALID, "plan"),
    (StrictCheckError("not valid"), FailureCode.INVALID, "invalid"),
    (InterruptedRunError("interrupted"), FailureCode.INTERRUPTED, "interrupted"),
    (KeyError("x"), FailureCode.INTERNAL_ERROR, "fault"),
]


@pytest.mark.parametrize(("error", "code", "kind"), ERRORS)
def test_each_error_has_its_code_and_the_kind_used_in_messages(
    error: Exception, code: FailureCode, kind: str
) -> None:
    failure = failure_of(error)
    assert (failure.code, failure.kind) == (code, kind)
    assert failure.facts.get("url") == getattr(error, "url", None)


def test_an_error_without_a_code_has_that_of_its_cause() -> None:
    error = StrictCheckError("strict")
    error.__cause__ = errors.HttpStatusError(URL, 502)
    assert failure_of(error) == Failure(code=FailureCode.HTTP_SERVER_ERROR, facts={"url": URL, "status": 502})


def _missing_metadata(_: dict[str, str], good: bytes) -> bytes:
    begin = good.find(b"<metadata>", good.find(b"oai:fake.example:12<"))
    end = good.find(b"</metadata>", begin) + len(b"</metadata>")
    return good[:begin] + good[end:] if b"oai:fake.example:12<" in good else good


def _control_character(_: dict[str, str], good: bytes) -> bytes:
    return good.replace(b"<dc:title>Title 12", b"<dc:title>\x01Title 12")


def _mismatched_tags(_: dict[str, str], good: bytes) -> bytes:
    return good.replace(b"Title 12 ", b"Title <b>12 ")


def _latin(_: dict[str, str], good: bytes) -> bytes:
    return good.replace(b"Title 12 ", b"Title \xe9\xff12 ")


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (_missing_metadata, "record_metadata_missing", "has no metadata, although it is not deleted"),
        (_control_character, "record_character", "contains a character that XML does not allow"),
        (_mismatched_tags, "record_xml", "is broken XML"),
        (_latin, "record_encoding", "characters that are not valid in its declared encoding"),
    ],
)
async def test_a_fault_of_a_record_is_explained_by_its_code(
    library: Library, fault: Callable[[dict[str, str], bytes], bytes], code: str, words: str
) -> None:
    library.fake.items[12] = Item(identifier="oai:fake.example:12", title="Title 12 of many")
    library.fake.fault = fault
    await library.run()
    with library.database.session() as session:
        row = session.query(Quarantined).one()
        assert (row.identifier, row.failure_code) == ("oai:fake.example:12", code)
        assert words in explained(row.failure, "en").what


async def test_status_500_for_one_record_is_not_a_fault_of_its_header(library: Library) -> None:
    def broken(asked: dict[str, str], _: bytes) -> tuple[int, dict[str, str], bytes] | None:
        return (500, {}, b"") if asked.get("identifier") == "oai:fake.example:12" else None

    library.fake.fault = broken
    library.change_settings(retries=0)
    await library.run(method=Method.IDENTIFIERS)
    with library.database.session() as session:
        row = session.query(Quarantined).one()
        assert row.failure_code == "http_server_error"
        assert explained(row.failure, "en").what == "The repository reports an internal error."


async def test_a_failed_strict_check_has_the_code_malformed_answer(library: Library) -> None:
    library.fake.fault = _missing_metadata
    outcome = await library.run(validation=Level.STRICT)
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.failure.facts["url"].startswith(library.fake.url)) == (
        "malformed_answer",
        True,
    )
