import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.rules.filters import Filters, parse_filters
from harvester.rules.normalisation import Mappings, parse_mappings
from harvester.rules.rule_expressions import Expression, RecordPath, TooMuchError
from harvester.rules.rule_files import RuleFileError, RuleLimitError
from harvester.rules.rule_limits import Evaluator, RuleLimits
from tests.harvester.rules.rule_samples import DC, DECLARED, OAI, record

ELSEWHERE = RuleLimits(steps=0)
"""With these limits, expressions that are not clearly linear are evaluated in the other process."""

COSTLY = "//dc:subject[count(//dc:subject/following::dc:subject) > count(//dc:subject/preceding::*)]"
BIG = record("<dc:subject>art</dc:subject>" * 20_000)


def filters(xpath: str, regexp: str = "art", *, limits: RuleLimits | None = None) -> Filters:
    rule = f'\n  <filter xpath="{xpath}" regexp="{regexp}"/>'.replace("> count", "&gt; count")
    text = f"<filters>{DECLARED}{rule}</filters>"
    return parse_filters(text.encode(), source="filters.xml", limits=limits)


def mappings(*pairs: tuple[str, str], limits: RuleLimits | None = None) -> Mappings:
    rules = "\n".join(
        f'<mapping xpath="//dc:type"><newElement name="dc:type" regexp="^{old}$"><newValue>{new}</newValue>'
        "</newElement></mapping>"
        for old, new in pairs
    )
    text = f"<normalize>{DECLARED}{rules}</normalize>"
    return parse_mappings(text.encode(), source="normalize.xml", limits=limits)


def test_an_xpath_with_exponential_time_is_ended_with_rule_position_and_reason() -> None:
    costly = filters(COSTLY, limits=RuleLimits(seconds=0.2))

    with pytest.raises(RuleLimitError) as caught:
        costly.accepts(BIG)

    assert str(caught.value).startswith("filters.xml, line 2, column 11: the XPath expression '//dc:subject[")
    assert str(caught.value).endswith("the file's rules take longer than 0.2 seconds on it")


def test_after_a_record_that_exceeded_the_limit_the_next_ones_are_judged() -> None:
    costly = filters(
        "//dc:subject[count(//dc:subject/following::*) > 0]", limits=RuleLimits(seconds=0.2, steps=0)
    )

    with pytest.raises(RuleLimitError):
        costly.accepts(BIG)

    generous = filters("//dc:subject[count(//dc:subject/following::*) > 0]", limits=ELSEWHERE)
    assert generous.accepts(record("<dc:subject>art</dc:subject><dc:subject>law</dc:subject>"))


def test_a_rule_that_exceeds_the_limit_too_often_is_an_error_in_the_rule() -> None:
    costly = filters("//dc:subject", limits=RuleLimits(characters=2, records=2))
    for _ in range(2):
        with pytest.raises(RuleLimitError, match="more than 2 characters"):
            costly.accepts(record("<dc:subject>art</dc:subject>"))

    with pytest.raises(RuleFileError, match="more than 2 records exceeded it; simplify the rule"):
        costly.accepts(record("<dc:subject>art</dc:subject>"))


def test_the_limit_applies_to_all_rules_of_a_file_together() -> None:
    moments = iter(range(1000))
    evaluation = Evaluator(RuleLimits(seconds=10), clock=lambda: float(next(moments))).on(record("<dc:a/>"))
    path = RecordPath(expression="//dc:a", namespaces={"dc": DC})

    for _ in range(5):
        evaluation.find(path)
    with pytest.raises(TooMuchError, match="longer than 10 seconds"):
        evaluation.find(path)


def test_mappings_that_apply_to_each_others_results_endlessly_exceed_the_limit() -> None:
    moments = iter(range(100_000))
    evaluator = Evaluator(RuleLimits(seconds=5000), clock=lambda: float(next(moments)))
    endless = replace(mappings(*((f"a{n}", f"a{n + 1}") for n in range(50, 0, -1))), evaluator=evaluator)

    with pytest.raises(RuleLimitError, match=r"normalize\.xml, line \d+, column \d+: .* 5000 seconds"):
        endless.apply(record("<dc:type>a1</dc:type>"))


def test_nested_elements_whose_texts_add_up_exceed_the_limit() -> None:
    nested = "<dc:subject>" * 200 + "a" * 10_000 + "</dc:subject>" * 200

    with pytest.raises(RuleLimitError, match="more than 1,000,000 characters"):
        filters("//dc:subject", "b", limits=RuleLimits(characters=1_000_000)).accepts(record(nested))


def test_a_regular_expression_is_ended_at_the_limit_too() -> None:
    heavy = filters("//dc:subject", "(x?){900}x{900}y", limits=RuleLimits(seconds=0.2))

    with pytest.raises(RuleLimitError, match=r"the regular expression .* 0\.2 seconds"):
        heavy.accepts(record(f"<dc:subject>{'x' * 2_000_000}</dc:subject>"))


@pytest.mark.parametrize(("pattern", "answer"), [("ŽAT", True), ("žit", False)])
def test_a_regular_expression_has_the_same_result_in_the_other_process(pattern: str, *, answer: bool) -> None:
    evaluation = Evaluator(ELSEWHERE).on(record(""))

    expression = Expression(pattern=pattern, ignore_case=True)

    assert evaluation.matches(expression, "žatva\x85\u2028\U0001f33e") is answer


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Evaluator]:
    evaluator = Evaluator(ELSEWHERE)
    yield evaluator
    del evaluator


EXPRESSIONS = [
    "//dc:subject[. != 'none']", "//dc:*[. != 'none']/..", "//text()[. != 'none']", "//*[. != 'none']/@*",
    "//comment() | //processing-instruction()",
    "//dc:subject/following::node()", "string(//dc:subject)", "sum(//dc:subject)", "string-length() > 3",
    "//dc:subject | //oai:setSpec",
    "//dc:subject/preceding-sibling::*", "string(1 div 0)", "//@xml:lang/..", "//oai:*[//dc:subject]",
]  # fmt: skip
PIECES = [
    "<dc:subject>art</dc:subject>", '<dc:subject xml:lang="cs">žatva &amp; &lt;</dc:subject>',
    "text &#13; ", "<!-- a -->",
    "<?p q?>", "<dc:a><dc:subject>b</dc:subject>tail</dc:a>", "<x xmlns='urn:x' y='&#10;'/>", "<dc:subject/>",
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(expression=st.sampled_from(EXPRESSIONS), pieces=st.lists(st.sampled_from(PIECES), max_size=6))
def test_an_xpath_has_the_same_result_in_the_other_process(
    elsewhere: Evaluator, expression: str, pieces: list[str]
) -> None:
    path = RecordPath(expression=expression, namespaces={"dc": DC, "oai": OAI})
    of = record("".join(pieces))

    assert elsewhere.on(of).find(path) == path.find(of)
    assert expression == "string(1 div 0)" or elsewhere.worker.pid is not None


def test_an_error_in_the_other_process_is_reported_too() -> None:
    late = filters("//dc:subject[string(concat(1))]", limits=ELSEWHERE)

    with pytest.raises(RuleFileError, match="cannot be evaluated"):
        late.accepts(record("<dc:subject>art</dc:subject>"))


def test_a_linear_expression_needs_no_other_process() -> None:
    evaluator = Evaluator(ELSEWHERE)

    found = evaluator.on(BIG).find(RecordPath(expression="//dc:subject", namespaces={"dc": DC}))

    assert (len(found), evaluator.worker.pid) == (20_000, None)


def test_starting_the_other_process_does_not_count_as_time_of_a_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = "import time, runpy; time.sleep(1.5); runpy.run_module('{}', run_name='__main__')"
    monkeypatch.setattr(
        "harvester.rules.rule_limits.module_command", lambda name: (sys.executable, "-c", slow.format(name))
    )
    evaluation = Evaluator(RuleLimits(steps=0, seconds=1)).on(record("a"))
    path = RecordPath(expression="string(/)", namespaces={})

    assert evaluation.find(path) == path.find(record("a"))


def test_the_other_process_ends_with_the_rules() -> None:
    evaluator = Evaluator(ELSEWHERE)
    assert evaluator.on(record("")).find(RecordPath(expression="string(/)", namespaces={})) != []
    pid = evaluator.worker.pid
    assert pid is not None

    del evaluator
    gc.collect()

    assert not _alive(pid)


def test_a_lost_process_is_replaced() -> None:
    evaluator = Evaluator(ELSEWHERE)
    path = RecordPath(expression="string(/)", namespaces={})
    first = evaluator.on(record("a")).find(path)
    pid = evaluator.worker.pid
    assert pid is not None
    os.kill(pid, 9)
    while _alive(pid, zombie=False):
        time.sleep(0.01)

    assert evaluator.on(record("a")).find(path) == first
    assert evaluator.worker.pid not in {pid, None}


def test_a_record_is_rejected_if_the_process_is_lost_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    # An interpreter that ends at once represents one that runs out of memory.
    monkeypatch.setattr("sys.executable", "/bin/false")
    evaluator = Evaluator(ELSEWHERE)

    with pytest.raises(TooMuchError, match="the process that evaluated it ended"):
        evaluator.on(record("a")).find(RecordPath(expression="string(/)", namespaces={}))


def _alive(pid: int, *, zombie: bool = True) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 as short as it gets
        return zombie or file.read().rpartition(")")[2].split()[0] != "Z"


def test_a_match_found_in_the_other_process_gets_its_new_element_next_to_it() -> None:
    changed = record("<dc:type>a1</dc:type><dc:title/>")

    rule = (
        '<mapping xpath="//dc:type[. = string(.)]">'
        '<newElement name="dc:type" regexp="a1"><newValue>a2</newValue>'
    )
    text = f"<normalize>{DECLARED}{rule}</newElement></mapping></normalize>"
    assert parse_mappings(text.encode(), source="n.xml", limits=ELSEWHERE).apply(changed) == 1
    root = changed.find(f".//{{{DC}}}type")
    assert root is not None
    following = root.getnext()
    assert following is not None
    assert following.text == "a2"


def test_a_signal_to_the_whole_group_does_not_cost_a_record() -> None:
    evaluator = Evaluator(ELSEWHERE)
    path = RecordPath(expression="string(/)", namespaces={})
    first = evaluator.on(record("a")).find(path)
    pid = evaluator.worker.pid
    assert pid is not None

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)

    assert evaluator.on(record("a")).find(path) == first
    assert evaluator.worker.pid == pid


@pytest.mark.parametrize(
    "rule",
    [
        f"<filter {'a' * 500_000}='' xpath='//a' regexp='a'/>",
        f"<filter xpath='{'a' * 500_000}()' regexp='a'/>",
        f"<filter xpath='{'a' * 500_000}:b' regexp='a'/>",
    ],
    ids=["attribute", "function", "prefix"],
)
def test_a_rule_with_a_long_unknown_name_is_refused(rule: str) -> None:
    with pytest.raises(RuleFileError):
        parse_filters(f"<filters>{DECLARED}{rule}</filters>".encode(), source="filters.xml")


def test_many_namespaces_can_be_declared() -> None:
    declared = " ".join(f"xmlns:p{number}='http://example.org/{number}'" for number in range(20_000))
    selection = f"<selectionNamespaces>{declared}</selectionNamespaces>"
    rule = "<filter xpath='//p19999:a' regexp='a'/>"
    read = parse_filters(f"<filters>{selection}{rule}</filters>".encode(), source="filters.xml")
    assert isinstance(read, Filters)
