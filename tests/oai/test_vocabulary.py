"""The vocabulary of the protocol is complete and consistent."""

import pytest

from oai.vocabulary import RULES, ErrorCode, Verb, reports_deletions


def test_every_verb_has_a_rule() -> None:
    assert set(RULES) == set(Verb)


def test_there_are_eight_error_codes_and_every_verb_allows_bad_argument() -> None:
    assert len(ErrorCode) == 8
    assert all(ErrorCode.BAD_ARGUMENT in rule.errors for rule in RULES.values())
    assert set().union(*(rule.errors for rule in RULES.values())) == set(ErrorCode) - {ErrorCode.BAD_VERB}


def test_only_lists_can_be_resumed() -> None:
    resumable = {verb for verb, rule in RULES.items() if rule.exclusive == "resumptionToken"}
    assert resumable == {Verb.LIST_IDENTIFIERS, Verb.LIST_RECORDS, Verb.LIST_SETS}


def test_the_argument_names_are_those_of_the_specification() -> None:
    assert set().union(*(rule.allowed for rule in RULES.values())) == {
        "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken",
    }  # fmt: skip


@pytest.mark.parametrize("said", [None, "", "no", "No", "None", "transient", "sometimes"])
def test_only_a_persistent_repository_reports_each_deletion(said: str | None) -> None:
    assert not reports_deletions(said)
    assert reports_deletions("persistent")
    assert reports_deletions(" Persistent")
