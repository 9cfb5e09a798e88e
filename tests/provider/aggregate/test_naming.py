"""Generated identifiers and setSpecs are valid and unique."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai.errors import UsageError
from provider.aggregate.identifiers import given_identifier, given_set, source_name, suggested_name
from provider.holdings.sets import is_set_spec
from provider.protocol.requests import is_uri

# As the schema of oai-identifier has it.
OWN = re.compile(r"oai:a\.example:lib:[a-zA-Z0-9\-_.!~*'();/?:@&=+$,%]+")
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


def own(identifier: str) -> str:
    return given_identifier(identifier, how="own", namespace=lambda: "a.example", source="lib")


@given(texts, texts)
def test_generated_identifiers_are_valid_and_unique(one: str, other: str) -> None:
    assert OWN.fullmatch(own(one))
    assert is_uri(own(one))
    assert (own(one) == own(other)) == (one == other)


@given(texts)
def test_an_original_identifier_is_published_if_it_is_a_uri(identifier: str) -> None:
    found = given_identifier(identifier, how="original", namespace=lambda: "a.example", source="lib")
    assert found == (identifier if is_uri(identifier) else own(identifier))
    assert is_uri(found)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_generated_set_specs_are_valid_and_unique(one: str, other: str) -> None:
    assert is_set_spec(given_set("lib", one))
    assert (given_set("lib", one) == given_set("lib", other)) == (one == other)
    assert given_set("lib", f"{one}:x").startswith(given_set("lib", one))


def test_a_set_spec_is_escaped_only_where_its_characters_are_invalid() -> None:
    assert given_set("lib", "serials:nov-07_(x)") == "lib:serials:nov-07_(x)"
    assert given_set("lib", "a b::!") == "lib:a!20b:!:!21"


@pytest.mark.parametrize("name", ["", "a:b", "a b", "x" * 61, "é"])
def test_a_source_name_that_is_not_a_valid_set_spec_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="letters"):
        source_name(name)


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("http://www.Library.example:8080/oai?x", "library-example"),
        ("https://user:word@a.example/", "a-example"),
        ("http://[::1]/oai", "source"),
    ],
)
def test_a_source_is_named_after_its_host(base_url: str, name: str) -> None:
    assert suggested_name(base_url) == name
