"""Looks at how the repository refuses what it should, and whether it takes POST."""

from collections.abc import Awaitable, Callable

from harvester.doctor.case import Case, error_in, short
from harvester.reading.answers import Identity
from harvester.reading.errors import ClientError
from oai.vocabulary import ErrorCode, Verb

_NONSENSE = "zatva-no-such-thing"


async def look_at_refusals(case: Case) -> None:
    """Make five requests that have to be refused, each for its own reason."""
    prefix = ("metadataPrefix", case.metadata_prefix)
    records, get = ("verb", Verb.LIST_RECORDS.value), ("verb", Verb.GET_RECORD.value)
    requests = (
        ("bad verb", Verb.LIST_RECORDS, ErrorCode.BAD_VERB, [("verb", _NONSENSE)]),
        ("bad argument", Verb.LIST_RECORDS, ErrorCode.BAD_ARGUMENT, [records]),
        (
            "bad token", Verb.LIST_RECORDS, ErrorCode.BAD_RESUMPTION_TOKEN,
            [records, ("resumptionToken", _NONSENSE)],
        ),
        (
            "bad format", Verb.LIST_RECORDS, ErrorCode.CANNOT_DISSEMINATE_FORMAT,
            [records, ("metadataPrefix", _NONSENSE)],
        ),
        (
            "bad identifier", Verb.GET_RECORD, ErrorCode.ID_DOES_NOT_EXIST,
            [get, ("identifier", f"oai:{_NONSENSE}:1"), prefix],
        ),
    )  # fmt: skip
    for subject, verb, code, arguments in requests:
        try:
            found = error_in(await case.ask(*arguments), verb)
        except ClientError as error:
            found = short(error)
        case.note(subject, "well" if found == code else "other", code=code.value, text=found)


async def look_at_post(case: Case, identify_by_post: Callable[[], Awaitable[Identity]]) -> None:
    """Ask for Identify by POST."""
    try:
        await identify_by_post()
    except ClientError as error:
        case.note("post", "failed", text=short(error))
    else:
        case.note("post", "well")
