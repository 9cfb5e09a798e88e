"""Failures as codes with facts, and their explanations in each language."""

import json
import re

import pytest

from oai.failures import SENTENCES, Failure, FailureCode, explained

LANGUAGES = ("en", "cs", "sk")
_PLACE = re.compile(r"%\((\w+)\)s")


def filled(code: FailureCode) -> Failure:
    """Return the failure with a fact for each placeholder of its sentence."""
    facts = dict.fromkeys(_PLACE.findall(SENTENCES.get(code, "")), "7")
    return Failure(code=code, facts=facts)


@pytest.mark.parametrize("code", SENTENCES)
def test_the_placeholders_of_a_sentence_are_replaced_by_facts(code: FailureCode) -> None:
    assert "7" in filled(code).sentence() or not _PLACE.search(SENTENCES[code])
    assert "?" not in filled(code).sentence()


@pytest.mark.parametrize("code", FailureCode)
def test_each_code_has_a_different_explanation_in_each_language(code: FailureCode) -> None:
    words = [explained(filled(code), language) for language in LANGUAGES]
    assert len({one.what for one in words}) == len(LANGUAGES)
    assert all(one.what.rstrip("7?").rstrip().endswith((".", ":")) for one in words)
    assert {bool(one.todo) for one in words} in ({True}, {False})


@pytest.mark.parametrize("code", FailureCode)
def test_each_code_has_a_kind(code: FailureCode) -> None:
    assert filled(code).kind


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_codes_have_different_explanations(language: str) -> None:
    words = [explained(Failure(code=code), language).what for code in FailureCode]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_only_the_advice_for_altered_files_names_the_rebuild_command(language: str) -> None:
    advice = explained(filled(FailureCode.STORE_DAMAGED), language).todo.partition(". ")[2]
    missing, altered, *_ = advice.split(",")
    assert "zatva store rebuild" in altered
    assert "zatva store rebuild" not in missing


def test_sentences_show_grouped_numbers_and_unchanged_texts() -> None:
    failure = Failure(
        code=FailureCode.ANSWER_BYTES, facts={"limit": 536870912, "setting": "harvester.max_answer_bytes"}
    )
    assert failure.sentence() == (
        "the answer is larger than 536,870,912 bytes; to accept it, raise harvester.max_answer_bytes"
    )


def test_the_sentence_for_one_withdrawn_document_is_correct() -> None:
    failure = Failure(code=FailureCode.EXPORT_WITHDRAWN, facts={"count": 1})
    assert failure.sentence() == ("documents in the file that may no longer be read: 1; the file was removed")


def test_process_numbers_are_shown_without_grouping() -> None:
    facts = {"number": 12345, "host": "w1", "signal": 9}
    failure = Failure(code=FailureCode.PROCESS_SIGNALLED, facts=facts)
    assert failure.sentence() == "process 12345 on host 'w1' was ended by signal 9"


def test_a_nested_failure_is_explained_within_the_outer_one() -> None:
    inner = Failure(code=FailureCode.TIMEOUT).as_json()
    facts = {"until": "2026-01-02T03:04:05Z", "for": inner}
    words = explained(Failure(code=FailureCode.WAITING, facts=facts), "en", lambda moment: f"<{moment}>")
    assert words.what == ("The answer took too long. The harvest retries at <2026-01-02T03:04:05Z>.")


@pytest.mark.parametrize(
    ("facts", "times"),
    [
        ({"count": 1, "more": False, "first": "a", "last": "a"}, "a."),
        ({"count": 3, "more": False, "first": "a", "last": "c"}, "3 (a – c)."),  # noqa: RUF001 a dash
        ({"count": 1000, "more": True, "first": "a", "last": "c"}, "≥ 1,000 (a – c)."),  # noqa: RUF001
        ({"times": "due at a"}, "due at a."),
    ],
)
def test_due_times_are_shown_as_a_single_time_or_a_range(facts: dict[str, object], times: str) -> None:
    words = explained(Failure(code=FailureCode.RUN_SKIPPED, facts=facts), "en")
    assert words.what == f"Skipped, because the previous run was still running: {times}"


@pytest.mark.parametrize("code", FailureCode)
def test_failures_survive_the_round_trip_through_json(code: FailureCode) -> None:
    failure = Failure(code=code, facts={"limit": 5, "url": "http://x/"})
    assert Failure.from_json(json.loads(json.dumps(failure.as_json()))) == failure
    assert Failure.stored(code.value, failure.facts) == failure


@pytest.mark.parametrize("stored", [None, "x", {}, {"code": 1}, {"facts": {}}])
def test_invalid_json_of_a_failure_is_read_as_none(stored: object) -> None:
    assert Failure.from_json(stored) is None


def test_an_unknown_code_is_read_as_other() -> None:
    assert Failure.stored("of_a_later_version", None) == Failure(code=FailureCode.OTHER)
    assert Failure.stored(None, None) is None


def test_only_failures_with_a_setting_are_limits() -> None:
    assert Failure(code=FailureCode.MEMORY, facts={"limit": 1, "setting": "x"}).is_limit
    assert not Failure(code=FailureCode.TIMEOUT, facts={"url": "http://x/"}).is_limit
