"""Failures as codes with facts."""

import json
import re

import pytest

from oai.failures import SENTENCES, Failure, FailureCode

_PLACE = re.compile(r"%\((\w+)\)s")


@pytest.mark.parametrize("code", FailureCode)
def test_each_code_has_a_sentence_that_uses_the_facts_its_description_names(code: FailureCode) -> None:
    facts = dict.fromkeys(_PLACE.findall(SENTENCES[code]), 1)
    assert "1" in Failure(code=code, facts=facts).sentence()


def test_a_sentence_shows_numbers_grouped_and_texts_as_they_are() -> None:
    failure = Failure(
        code=FailureCode.ANSWER_BYTES, facts={"limit": 536870912, "setting": "harvester.max_answer_bytes"}
    )
    assert failure.sentence() == (
        "the answer is larger than 536,870,912 bytes; to accept it, raise harvester.max_answer_bytes"
    )


def test_a_sentence_is_translated_before_its_facts_are_filled_in() -> None:
    failure = Failure(code=FailureCode.MEMORY, facts={"limit": 5, "setting": "x"})
    assert failure.sentence(lambda english: english.split(";")[0]) == (
        "reading the answer takes more than 5 bytes of memory"
    )


def test_facts_survive_being_stored_as_json() -> None:
    failure = Failure(code=FailureCode.EMPTY_PAGES, facts={"pages": 100, "setting": "x"})
    stored = json.loads(json.dumps({"code": failure.code, "facts": dict(failure.facts)}))
    assert Failure(code=FailureCode(stored["code"]), facts=stored["facts"]) == failure
