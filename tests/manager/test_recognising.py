"""The manager's sentences are found again in the reasons that it wrote."""

import re

import pytest

from manager.recognising import SENTENCES, recognised

_ALONE = [sentence for sentence in SENTENCES if "%(reason)s" not in sentence]


def _filled(sentence: str) -> tuple[str, dict[str, str]]:
    values = {name: f"<{name}>" for name in re.findall(r"%\((\w+)\)s", sentence)}
    return sentence % values, values


@pytest.mark.parametrize("sentence", SENTENCES)
def test_each_sentence_is_found_with_what_stands_in_its_places(sentence: str) -> None:
    reason, values = _filled(sentence)

    found = recognised(reason)

    assert found is not None
    assert (found.sentence, found.values, found.said) == (sentence, values, "")


def test_a_sentence_may_stand_in_another_and_be_followed_by_what_a_process_said() -> None:
    process = "process 7 on host 'w1'"

    found = recognised(f"{process} was ended by signal 9; the last it said: Memory\nError")
    inner = recognised(process)

    assert found is not None
    assert inner is not None
    assert (found.values, found.said) == ({"process": process, "signal": "9"}, "Memory\nError")
    assert inner.values == {"number": "7", "host": "'w1'"}


@pytest.mark.parametrize("sentence", _ALONE)
def test_what_stands_beside_a_sentence_makes_it_none_of_the_managers(sentence: str) -> None:
    reason, _values = _filled(sentence)

    found = recognised(f"https://x.example/oai\n{reason} - and more")

    assert found is None or found.values != _filled(sentence)[1]


@pytest.mark.parametrize("reason", ["", "HTTP status 500", "interrupted", "held: it would delete 9 records"])
def test_words_of_harvesters_are_none_of_them(reason: str) -> None:
    assert recognised(reason) is None
