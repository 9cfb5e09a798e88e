"""The public interfaces equal their frozen files."""

import pytest

from tests.interfaces.comparing import compare, differences
from tests.interfaces.surfaces import SURFACES


@pytest.mark.parametrize("name", SURFACES)
def test_the_interface_is_as_it_was_frozen(name: str, request: pytest.FixtureRequest) -> None:
    compare(name, SURFACES[name](), request)


def test_a_difference_is_named_with_its_place() -> None:
    before = {"a": [1, {"b": 2}], "gone": 1}
    after = {"a": [1, {"b": 3}], "more": 1}
    assert list(differences(before, after, "x")) == ["x.a.1.b was 2, is 3", "x.gone is gone", "x.more is new"]
