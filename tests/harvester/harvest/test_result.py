"""The outcome of a run, from its evidence and its error."""

from harvester.harvest.result import failure_reason
from harvester.harvest.verdict import End, Evidence
from oai.errors import TryLaterError

EVIDENCE = Evidence(end=End.ERROR, listed=0, changes=0)


def test_the_reason_of_a_known_error_is_its_message() -> None:
    assert failure_reason(EVIDENCE, TryLaterError("wait an hour")) == "wait an hour"


def test_the_reason_of_an_internal_error_begins_with_its_type() -> None:
    assert failure_reason(EVIDENCE, ZeroDivisionError("so")) == "ZeroDivisionError: so"
