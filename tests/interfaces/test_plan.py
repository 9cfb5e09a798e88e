"""Each harvest parameter is on every interface, or its declaration gives a reason."""

import argparse
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table
from sqlalchemy.orm import Session

from harvester.cli.harvest_parser import build_process_parser
from harvester.harvest.request import HarvestRequest
from harvester.harvest_plan import PARAMETERS, Parameter, Surface, carried
from manager.models import Job, RecurringJob
from manager.schedules.service import job_of
from manager.worker.claim import run_of
from tests.parsers import commands_of
from web.schedules.api import NewSchedule, ScheduleOut
from web.schedules.forms import ScheduleForm
from zatva.cli import build_parser

_COMMANDS = dict(commands_of("zatva", build_parser()))
_OF_A_REQUEST = {"repository_id", "replay", "job_id", "recurring_id"}
"""Names that identify a harvest; they are not parameters."""
_FORM = Path(__file__).parents[2] / "web" / "templates" / "schedule_form.html"
_TIMING = _FORM.with_name("timing.html")


def _destinations(parser: argparse.ArgumentParser) -> set[str]:
    return {action.dest for action in parser._actions}  # noqa: SLF001


def _on(surface: Surface) -> set[str]:
    """Return the names that the interface itself has."""
    return {
        Surface.SCHEDULE: lambda: set(RecurringJob.__table__.columns.keys()),
        Surface.JOB: lambda: set(Job.__table__.columns.keys()),
        Surface.REQUEST: lambda: {one.name for one in fields(HarvestRequest)},
        Surface.PROCESS: lambda: _destinations(build_process_parser()),
        Surface.COMMAND: lambda: _destinations(_COMMANDS["zatva harvest"]),
        Surface.SCHEDULE_COMMAND: lambda: _destinations(_COMMANDS["zatva schedule add"]),
        Surface.FORM: lambda: set(ScheduleForm.model_fields),
        Surface.API: lambda: set(ScheduleOut.model_fields),
    }[surface]()


def _name(one: Parameter, surface: Surface) -> str:
    """Return the parameter's name on the interface."""
    if surface is Surface.COMMAND:
        return one.command.target if one.command else ""
    return {
        Surface.JOB: one.job_column,
        Surface.REQUEST: one.name,
        Surface.PROCESS: one.process,
    }.get(surface, one.column)


@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("one", PARAMETERS, ids=lambda one: one.name)
def test_an_interface_has_the_parameter_unless_its_declaration_gives_a_reason(
    one: Parameter, surface: Surface
) -> None:
    assert (_name(one, surface) in _on(surface)) == one.on(surface)
    assert one.on(surface) or one.absent[surface]


def test_no_interface_has_an_undeclared_parameter() -> None:
    declared = {one.column for one in carried(Surface.FORM)} | {"repository_id"}
    assert set(NewSchedule.model_fields) == set(ScheduleForm.model_fields) == declared
    assert _on(Surface.REQUEST) == {one.name for one in carried(Surface.REQUEST)} | _OF_A_REQUEST
    assert _destinations(_COMMANDS["zatva schedule edit"]) >= {
        one.column for one in carried(Surface.SCHEDULE_COMMAND)
    }


@pytest.mark.parametrize("one", carried(Surface.FORM), ids=lambda one: one.name)
def test_the_form_has_a_field_for_the_parameter(one: Parameter) -> None:
    shown = _FORM.read_text(encoding="utf-8") + _TIMING.read_text(encoding="utf-8")
    assert one.label or f'(form, "{one.column}"' in shown


def test_the_default_of_a_parameter_depends_on_the_interface() -> None:
    full = next(one for one in PARAMETERS if one.name == "full")
    assert RecurringJob.__table__.columns["incremental"].server_default is not None
    assert _COMMANDS["zatva schedule add"].get_default("incremental") is True
    assert ScheduleForm.model_fields["incremental"].default is False
    assert (full.default, full.stored, full.form) == (False, True, False)


@pytest.mark.parametrize("table", [RecurringJob.__table__, Job.__table__], ids=lambda table: str(table.name))
def test_a_column_is_nullable_if_it_has_no_default(table: Table) -> None:
    surface = Surface(table.name)
    for one in carried(surface):
        column = table.columns[_name(one, surface)]
        assert column.nullable == (column.server_default is None) == (one.stored is None)


def test_the_parameters_of_a_schedule_are_passed_to_the_harvest() -> None:
    shared = carried(Surface.SCHEDULE, Surface.JOB, Surface.REQUEST)
    stored = {one.column: _other(one) for one in shared}
    schedule = RecurringJob(id=3, repository_id=1, priority=0, **stored)

    # A schedule of full harvests needs no look-up in the history.
    job = job_of(Session(), schedule, due=datetime(2026, 1, 1, tzinfo=UTC))
    job.job_id, job.max_records = 2, 10

    values = _read(run_of(job).arguments)
    assert values["max_records"] == 10
    for one in shared:
        wanted = stored[one.column]
        assert values[one.name] != one.default
        assert values[one.name] == (wanted is not one.reversed if one.kind is bool else one.value(wanted))
    HarvestRequest(repository_id=1, **values).check()


def _other(one: Parameter) -> Any:
    """Return a value other than the default."""
    if one.kind is bool:
        return not one.stored
    if one.choices is not None:
        return next(choice.value for choice in one.choices if choice is not one.default)
    return 7 if one.kind is int else "2026-01-01"


def _read(arguments: tuple[str, ...]) -> Mapping[str, Any]:
    given = vars(build_process_parser().parse_args(arguments))
    return {one.name: one.value(given[one.process]) for one in carried(Surface.PROCESS)}
