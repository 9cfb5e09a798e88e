"""The command line's help for beginners: overview, suggestions, examples, names."""

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest

from harvester.bibliographic.conditions import parse_condition
from oai.cli import Invocation, run
from oai.command_parser import CommandParser
from zatva.cli import build_parser
from zatva.examples import EXAMPLES, FIRST

_LINES = EXAMPLES.strip().splitlines()


@cache
def _parser() -> CommandParser:
    """Return the parser, which parsing does not change."""
    return build_parser()


def _commands(parser: CommandParser) -> Iterator[CommandParser]:
    """Yield the parsers of all commands that run something."""
    if parser.get_default("handler"):
        yield parser
    for one in parser.commands.choices.values() if parser.commands else ():
        yield from _commands(one)


_INTERRUPTED = """
import signal, zatva.__main__, zatva.cli
zatva.cli.{} = lambda *_: signal.raise_signal(signal.SIGINT)
zatva.__main__.main()
"""


@pytest.mark.parametrize("step", ["build_parser", "run"])
def test_an_interrupt_before_the_command_begins_leaves_no_traceback(step: str) -> None:
    program = (sys.executable, "-c", _INTERRUPTED.format(step))
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("line", [*_LINES, *FIRST])
def test_every_example_is_a_command_line(line: str) -> None:
    assert hasattr(_parser().parse_args(shlex.split(line)[1:]), "handler")


@pytest.mark.parametrize("line", [line for line in EXAMPLES.splitlines() if " --where " in line])
def test_the_condition_in_an_example_is_valid_and_in_single_quotes(line: str) -> None:
    given = shlex.split(line)
    condition = given[given.index("--where") + 1]
    parse_condition(condition)
    assert f"'{condition}'" in line


def test_the_examples_of_imports_name_the_repositories() -> None:
    lines = [line for line in EXAMPLES.splitlines() if line.startswith("zatva import run")]
    assert all("--all" in line or "--repository" in line for line in lines)


def test_every_command_has_an_example() -> None:
    assert [one.prog for one in _commands(_parser()) if not one.examples] == []


def test_every_argument_has_a_help_text() -> None:
    commands = [one for one in _commands(_parser()) if one.commands is None]
    bare = [f"{one.prog} {action.dest}" for one in commands for action in one._actions if not action.help]  # noqa: SLF001
    assert bare == []


def test_the_overview_names_every_command_by_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    parser = _parser()
    assert run(parser, []) == 2
    shown = capsys.readouterr().err
    assert parser.commands is not None
    assert sorted(name for names in parser.purposes.values() for name in names) == sorted(
        parser.commands.choices
    )
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "harvest:\n  probe " in shown
    assert FIRST[0] in shown


def test_a_group_without_its_command_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(_parser(), ["schedule"]) == 2
    assert "resume a schedule" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "--data here --json provider -q status --run 7",
        "provider --data=here status --json --run 7 --quiet",
        "provider status --run 7 -q --json --data here",
    ],
)
def test_shared_options_may_be_anywhere(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Invocation] = []

    def show(invocation: Invocation) -> int:
        seen.append(invocation)
        return 0

    monkeypatch.setattr("provider.commands.status", show)
    assert run(_parser(), shlex.split(line)) == 0
    (arguments,) = (invocation.arguments for invocation in seen)
    given = (str(arguments.data), arguments.json, arguments.quiet, arguments.run)
    assert given == ("here", True, True, 7)


@pytest.mark.parametrize(
    ("line", "message", "where"),
    [
        ("harvst x", "unknown command 'harvst'; did you mean `harvest`?", "zatva"),
        ("schedule ad 7", "unknown command 'ad'; did you mean `add`?", "zatva schedule"),
        (
            "--force init",
            "the option --force must be after the command: `zatva init --force`",
            "zatva init",
        ),
        ("harvest http://x --fromat y", "unknown option --fromat; did you mean `--format`?", "zatva harvest"),
        ("harvest http://x --zzz=y", "unknown option --zzz=y", "zatva harvest"),
        ("user list extra", "unknown argument extra", "zatva user list"),
        (
            "schedule add 7 --validation lose",
            "'lose': choose from strict, very-strict, loose",
            "zatva schedule add",
        ),
        ("job history --limit 0", "'0' is not a whole number from 1 to 2147483647", "zatva job history"),
        ("job history --limit -1", "'-1' is not a whole number from 1 to", "zatva job history"),
        ("provider status --run x", "'x' is not a whole number from 1 to", "zatva provider status"),
        ("repository show 3000000000", "is not a whole number from 0 to 2147483647", "zatva repository show"),
        ("harvest 3000000000", "'3000000000' is not a whole number from 0 to", "zatva harvest"),
        ("harvest --replay 9223372036854775808", "from 0 to 9223372036854775807", "zatva harvest"),
        ("job wait 1 --timeout nan", "'nan' is not a number from 0 to", "zatva job wait"),
        ("provider check http://x --polite -1", "is not a number from 0 to 3600", "zatva provider check"),
        ("provider index ''", "PATH: may not be empty", "zatva provider index"),
        ("job list --data=", "--data: may not be empty", "zatva job list"),
        ("harvest http://x --out ''", "--out: may not be empty", "zatva harvest"),
    ],
)
def test_a_wrong_argument_is_reported_with_a_correction_and_the_help_command(
    line: str, message: str, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(_parser(), shlex.split(line))
    lines = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert message in lines[0]
    assert lines[1:] == [f"Run `{where} --help` for help."]


@pytest.mark.parametrize(
    ("words", "stored"), [(("identifiers", "very-strict"), (1, 1)), (("0", "2"), (0, 2))]
)
def test_schedules_accept_the_option_names_of_harvest_and_the_numbers_of_the_tables(
    words: tuple[str, str], stored: tuple[int, int]
) -> None:
    method, validation = words
    line = f"schedule add 7 --method {method} --validation {validation} --filter a.xml --normalise b.xml"
    asked = _parser().parse_args(line.split())
    assert (asked.method, asked.validation) == stored
    assert (str(asked.filter_file_path), str(asked.normalize_file_path)) == ("a.xml", "b.xml")
