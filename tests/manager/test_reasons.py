"""Wait reasons and their sentences."""

import pytest

from manager.jobs.reasons import SENTENCES, Code, WaitReason, in_words


def test_every_code_has_its_sentence() -> None:
    assert SENTENCES.keys() == set(Code)


def test_a_stored_reason_is_read_back_unchanged() -> None:
    reason = WaitReason(code=Code.HOST, facts={"host": "a.example", "limit": 2})
    assert WaitReason.from_json(reason.as_json()) == reason


@pytest.mark.parametrize("stored", [None, [1], "due", {}, {"code": "nonsense"}, {"code": 7}, {"code": []}])
def test_invalid_stored_reasons_are_read_as_none(stored: object) -> None:
    assert WaitReason.from_json(stored) is None


def test_a_translation_gets_the_facts() -> None:
    reason = WaitReason(code=Code.REPOSITORY, facts={"job": 7})
    assert in_words(reason) == "one harvest per repository: waiting for job 7"
    assert in_words(reason, lambda _: "nejprve úloha %(job)s") == "nejprve úloha 7"


def test_a_missing_fact_is_shown_as_unknown() -> None:
    assert in_words(WaitReason(code=Code.HOST)) == "at most (unknown) harvests at a time from host (unknown)"
