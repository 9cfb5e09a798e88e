"""Words that converters assign, and faults that they record, are shown in the reader's language."""

import ast
from contextvars import copy_context
from pathlib import Path
from types import ModuleType

import pytest

from harvester.bibliographic import dublin_core
from harvester.bibliographic.marc21 import control_fields, converter, description, draft, fields, names
from tests.web.conftest import Browser, Server
from tests.web.rows import a_bibliographic_record, a_repository
from web.imports import record_words
from web.site.i18n import use_language

_MODULES = (dublin_core, control_fields, converter, description, draft, fields, names)
_REPORTS = {"broken", "_broken", "note"}
"""Functions that record a fault, given as third argument."""


def _faults() -> set[str]:
    """Return the faults in the converters' code, with an example in place of a value."""
    found: set[str] = set()
    for module in _MODULES:
        for node in ast.walk(ast.parse(Path(module.__file__ or "").read_bytes())):
            match node:
                case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[_, _, fault]):
                    found.update(_texts(fault, module) if called in _REPORTS else ())
                case ast.Assign(targets=[ast.Name(id="fault" | "found")], value=ast.JoinedStr() as fault):
                    found.update(_texts(fault, module))
                case ast.Assign(targets=[ast.Name(id="fault")], value=ast.Constant() as fault):
                    found.update(_texts(fault, module))
    return found


def _texts(fault: ast.expr, module: ModuleType) -> list[str]:
    match fault:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(_part(part, module) for part in parts)]
    return []


def _part(part: ast.expr, module: ModuleType) -> str:
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=ast.Name(id=name)) if name.isupper():
            return str(getattr(module, name))
    return "1"


def _in(language: str, text: str) -> str:
    context = copy_context()
    context.run(use_language, language)
    return context.run(record_words.fault, text)


def test_every_fault_of_the_converters_is_translated() -> None:
    faults = _faults()
    assert {"no leader", "this is not a valid ISSN", "no title (dc:title)"} < faults
    assert len(faults) > 30
    assert {text for text in faults if _in("cs", text) == text} == set()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the check digit of this ISBN is wrong", "kontrolní číslice tohoto ISBN je chybná"),
        ("this is not a valid ISMN", "toto není platné ISMN"),
        ("field 008 has 38 characters, not 40", "pole 008 má jiný počet znaků než 40: 38"),
        ("indicator 2 is '7', not a function from 0 to 4", "indikátor 2 není funkce od 0 do 4: '7'"),
        ("a fault of another version", "a fault of another version"),
    ],
)
def test_a_fault_keeps_its_value(text: str, shown: str) -> None:
    assert _in("cs", text) == shown
    assert _in("en", text) == text


async def test_a_record_shows_assigned_values_in_czech_and_vocabularies_as_they_are(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        row = a_bibliographic_record(
            session,
            a_repository(session),
            titles=[
                {"kind": "varying", "text": "A Dictionary", "label": "parallel title"},
                {"kind": "translated", "text": "Slovník", "label": "Na hřbetu"},
            ],
            subjects=[
                {"text": "81 -- Lingvistika", "kind": "category", "source": "Konspekt", "authority_ids": []},
                {"text": "obec", "kind": "local", "source": "local", "authority_ids": []},
            ],
            related=[{"relation": "succeeding", "title": "Nové listy", "label": "merged with"}],
            notes=[
                {"kind": "broken", "field": "020", "text": "1", "fault": "this is not a valid ISBN"},
            ],
        )
        session.commit()
        path = f"/records/bibliographic/{row.bibliographic_id}"
    await administrator.post("/account/language", {"language": "cs"})

    _, page = await administrator.get(path)

    for words in (
        "druh: variantní název · označení: souběžný název",
        "druh: přeložený název · označení: Na hřbetu",
        "druh: kategorie",
        "druh: místní · slovník: local",
        "označení: spojeno s titulem",
        "chyba: toto není platné ISBN",
    ):
        assert words in page
