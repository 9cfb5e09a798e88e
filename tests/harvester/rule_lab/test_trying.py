"""Rules are tried on samples, with counts, reasons, and rules that never match."""

import pytest
from lxml import etree

from harvester.rule_lab.explanation import RuleEffect, explain
from harvester.rule_lab.replay_preview import trial_in_words
from harvester.rule_lab.trial import try_rules
from harvester.rules.filters import parse_filters
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind
from oai.errors import required
from tests.harvester.rule_lab.records import FILTERS, MAPPINGS, a_record

SLOW = b"""<filters><filter xpath="count(//*[count(//*[count(//*) > 0]) > 0])" regexp="."/></filters>"""
LARGE = b"<record>" + b"<a/>" * 20_000 + b"</record>"
_ENOUGH_FOR_ONE = 5.0
"""Seconds in which the process has started and tried a small record, even on a busy machine."""


def test_filters_are_tried_with_counts_and_reasons() -> None:
    samples = [a_record(1), a_record(2, subject="Botany"), b"<record"]
    trial = try_rules(FILTERS, RuleKind.FILTER, samples, seconds=60)

    assert trial.counts == {"accepted": 1, "refused": 1}
    assert [(one.found_in, one.matched_in) for one in trial.lines] == [(2, 1), (0, 0)]
    assert [one.rule for one in trial.idle] == [2]
    assert len(trial.unreadable) == 1
    words = trial_in_words(trial, most=3)
    assert "2 of 3 samples tested: 1 accepted, 1 filtered out, 1 could not be read" in words
    assert "never matches: filter 2 (//dc:coverage ~ .)" in words
    assert "filter 1 (//dc:subject ~ cultur): 0 of 1 matched: 'Botany' (no)" in words


def test_the_additions_of_each_mapping_are_shown() -> None:
    trial = try_rules(MAPPINGS, RuleKind.NORMALISE, [a_record(1), a_record(2, kind="Text")], seconds=60)

    changed, unchanged = trial.records
    assert (changed.fate, unchanged.fate) == (RuleEffect.CHANGED, RuleEffect.UNCHANGED)
    assert [list(one.added) for one in changed.findings] == [["dc:type: image"], [], ["dc:subject: Pictures"]]
    assert "+      <dc:type>image</dc:type>" in changed.diff
    assert (changed.before != changed.after, unchanged.after) == (True, "")
    assert [one.rule for one in trial.idle] == [2]


def test_a_record_that_takes_too_long_is_reported_and_the_next_one_is_tried() -> None:
    trial = try_rules(SLOW, RuleKind.FILTER, [a_record(), LARGE, a_record()], seconds=60)

    assert [one.fate for one in trial.records] == [RuleEffect.ACCEPTED, RuleEffect.LIMIT, RuleEffect.ACCEPTED]
    assert trial.ended is None
    limit = required(trial.records[1].trouble, "the rules took too long")
    assert str(limit).endswith("exceeds a limit: the file's rules take longer than 2 seconds on it")
    czech = limit.in_words(lambda text: {"the rules": "pravidla"}.get(text, text).replace("limit:", "mez:"))
    assert czech.startswith("pravidla, line 1, column 18: the XPath expression 'count(")
    assert "exceeds a mez: the file's rules" in czech


def test_a_trial_that_takes_too_long_is_ended_and_its_findings_are_returned() -> None:
    """The first record takes a moment; the following ones would take a minute."""
    trial = try_rules(SLOW, RuleKind.FILTER, [a_record(), *[LARGE] * 30], seconds=_ENOUGH_FOR_ONE)

    assert str(trial.ended) == "It took too long."
    assert trial.records[0].fate is RuleEffect.ACCEPTED
    assert 1 <= trial.tried < 31


def test_invalid_rules_are_rejected_before_the_trial() -> None:
    with pytest.raises(RuleFileError, match="line 1, column"):
        try_rules(b"<filters><filter xpath='//x' regexp='('/></filters>", RuleKind.FILTER, [], seconds=1)


@pytest.mark.parametrize("match", ["any", "all"])
@pytest.mark.parametrize("invert", ["true", "false"])
@pytest.mark.parametrize("subject", ["a", "b", "ab"])
def test_the_explanation_agrees_with_a_harvest(match: str, invert: str, subject: str) -> None:
    filters = parse_filters(
        f"""<filters match="{match}"><filter xpath="//*[name()='dc:subject']" regexp="a" invert="{invert}"/>
        <filter xpath="//*[local-name()='type']" regexp="b"/>
        <filter xpath="//*[local-name()='subject']" regexp="b"/></filters>""".encode(),
        source="x",
    )
    record = etree.fromstring(a_record(subject=subject, kind="b"))
    accepted = explain(record, filters).fate is RuleEffect.ACCEPTED
    assert accepted == filters.accepts(record)


def test_a_deletion_is_accepted_by_any_filter() -> None:
    deleted = etree.fromstring(
        b'<record xmlns="http://www.openarchives.org/OAI/2.0/"><header status="deleted">'
        b"<identifier>x</identifier><datestamp>2026-01-01</datestamp></header></record>"
    )
    assert explain(deleted, parse_filters(FILTERS, source="x")).fate is RuleEffect.ACCEPTED
