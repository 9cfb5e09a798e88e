"""The public interfaces equal their frozen files."""

import pytest

from tests.interfaces.comparing import compare, differences
from tests.interfaces.surfaces import SURFACES


@pytest.mark.parametrize("name", SURFACES)
def test_the_interface_equals_its_frozen_file(name: str, request: pytest.FixtureRequest) -> None:
    compare(name, SURFACES[name](), request)


def test_differences_are_reported_with_their_path() -> None:
    before = {"a": [1, {"b": 2}], "gone": 1}
    after = {"a": [1, {"b": 3}], "more": 1}
    assert list(differences(before, after, "x")) == ["x.a.1.b was 2, is 3", "x.gone is gone", "x.more is new"]
