from pathlib import Path

import pytest

pytest.importorskip("cosmic_ray", reason="installed with the extra `mutation`")

from tests.mutation.mutants import Mutant, mutants_of

MODULE = """\
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    VERSION = 1
Answer = int | str
_log = logging.getLogger(__name__)
MOST: Final[int | None] = 7


def larger(number: int | None, *, by: int = 1) -> int | None:
    _log.info("adding %d", by + 0)
    return None if number is None else number + by
"""


def found(text: str = MODULE) -> list[Mutant]:
    return list(mutants_of(text, "module.py", "package"))


def test_annotations_types_and_logs_have_no_mutants() -> None:
    assert {mutant.line for mutant in found()} == {8, 11, 13}


def test_a_star_that_is_not_an_operator_has_no_mutants() -> None:
    assert found("def first(one, *others, **named):\n    return [*others, {**named}]\n") == []


def test_a_mutant_names_its_function_and_changes_one_place(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    [subtracted] = [mutant for mutant in found() if mutant.operator == "ReplaceBinaryOperator_Add_Sub"]

    assert subtracted.function == "larger"
    assert subtracted.source(tmp_path) == MODULE.replace("number + by", "number - by")


def test_a_change_that_is_not_valid_python_is_not_a_mutant(tmp_path: Path) -> None:
    text = "for one in ():\n    print(*one)\nelse:\n    pass\n"
    (tmp_path / "module.py").write_text(text)
    outside = Mutant(
        package="package",
        module="module.py",
        operator="ReplaceBinaryOperator_Mul_Div",
        occurrence=0,
        line=2,
        column=10,
        function="",
    )

    assert outside.source(tmp_path) is None
