import pytest

from harvester.rules.rule_expressions import degree


@pytest.mark.parametrize(
    "expression",
    [
        "//dc:subject",
        "/oai:record/oai:header/oai:setSpec",
        "oai:header/oai:setSpec",
        "count(//dc:subject)",
        "not(//dc:subject)",
        "//marc:datafield[@tag='082']/marc:subfield[@code='a']",
        "//marc:datafield[@tag = \"082\" and @ind1 != 4]/marc:subfield[@code='a'][1]",
        "//dc:title/@xml:lang",
        "//dc:title/text()",
        "//dc:title/self::node()/child::b",
        "(//dc:subject)[last()]",
        "//a[b[c[d]]]",
    ],
)
def test_an_expression_that_reads_a_record_once_is_linear(expression: str) -> None:
    assert degree(expression) == 1


@pytest.mark.parametrize(
    ("expression", "power"),
    [
        ("//a[. = 'x']", 2),
        ("//*[local-name() = 'kind']", 2),
        ("//a[contains(@x, '//..| preceding::b')]", 2),
        ("//a/..", 2),
        ("//a | //b", 4),
        ("//a//b", 3),
        ("//a/following::a", 3),
        ("//a[ancestor :: b]", 3),
        ("//a[count(b) > 1]", 2),
        ("//a[count(//a) > 1]", 4),
        ("//a[/r/b]", 2),
        ("//a[2*/r/b]", 2),
        ("//*/b", 1),
        ("//a[b/*/c]", 1),
        ("//a[not(/r/b)]", 2),
        ("//a[b or /r/b]", 2),
        ("//a[b = c]", 3),
        ("//a[b < c]", 3),
        ("//a[string() = b]", 4),
        ("//a[preceding-sibling::b/following-sibling::c]", 5),
        ("//a[//a[//a[//a]]]", 7),
    ],
)
def test_each_step_that_reads_the_record_again_for_each_node_raises_the_degree(
    expression: str, power: int
) -> None:
    assert degree(expression) == power
