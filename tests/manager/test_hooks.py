"""Hooks: commands and web addresses that are called after a harvest, and what they receive."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from manager.hooks import FOLDER
from oai.database import Database
from oai.outgoing import HookSettings
from oai.settings import Settings
from tests.manager.conftest import Tables, alive, until
from tests.manager.notices.conftest import Announcer, notice_sender, outgoing
from tests.manager.notices.receiver import receiver

_KEEP = """
import json, os, pathlib, sys
facts = json.load(sys.stdin)
given = {name: value for name, value in os.environ.items() if name.startswith("ZATVA_HOOK_")}
changes = pathlib.Path(given["ZATVA_HOOK_CHANGES"]).read_text()
with open(sys.argv[1], "a") as file:
    print(json.dumps({"facts": facts, "given": given, "changes": changes}), file=file)
"""


@pytest.fixture
def announcer(database: Database, tables: Tables) -> Announcer:
    return Announcer(database, tables)


def a_run_with_changes(announcer: Announcer, changes: int) -> None:
    announcer.run(
        "completed", new_count=changes, harvest_id=5, run_started="2026-01-01T00:00Z", set_spec="a:b"
    )
    announcer.tables(
        "INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier,"
        " metadata_prefix, change, filename, datestamp)"
        " SELECT 7, 1, harvest, '2026-01-01T00:00Z', 'oai:x:' || number, 'oai_dc', 'new',"
        " number || '.xml', '2026'"
        " FROM generate_series(1, :changes) AS number, unnest(ARRAY[5, 6]) AS harvest ORDER BY number",
        changes=changes,
    )


def script(name: str, *arguments: str, program: str = _KEEP, timeout: float = 30) -> HookSettings:
    return HookSettings(
        name=name, command=(sys.executable, "-c", program, *arguments), timeout=timeout, tries=3
    )


async def test_a_command_gets_the_run_and_its_change_list(
    settings: Settings, database: Database, announcer: Announcer, tmp_path: Path
) -> None:
    a_run_with_changes(announcer, 3)
    hook = script("index", str(tmp_path / "out"))
    async with notice_sender(outgoing(settings, hooks=(hook,)), database) as tick:
        for _ in range(3):
            await tick()
    (line,) = (tmp_path / "out").read_text().splitlines()
    got = json.loads(line)
    assert (got["facts"]["history_id"], got["facts"]["status"], got["facts"]["new"]) == (1, "completed", 3)
    assert (got["given"]["ZATVA_HOOK_RUN"], got["given"]["ZATVA_HOOK_SET"]) == ("1", "a:b")
    changes = [json.loads(change) for change in got["changes"].splitlines()]
    assert [change["identifier"] for change in changes] == ["oai:x:1", "oai:x:2", "oai:x:3"]
    assert changes[0].keys() == {
        "change_id", "changed", "repository_id", "identifier", "metadata_prefix", "change", "filename",
        "datestamp",
    }  # fmt: skip
    assert list((settings.data / FOLDER).iterdir()) == []
    assert announcer.states() == ["sent"]


async def test_a_failing_command_is_retried_up_to_its_limit_and_then_given_up(
    settings: Settings, database: Database, announcer: Announcer, tmp_path: Path
) -> None:
    announcer.run("completed")
    program = _KEEP + "sys.exit('no room')"
    hook = script("index", str(tmp_path / "out"), program=program)
    async with notice_sender(outgoing(settings, hooks=(hook,)), database) as tick:
        for _ in range(5):
            await tick()
            announcer.tables("UPDATE notice SET due = now() WHERE state = 'waiting'")
    assert len((tmp_path / "out").read_text().splitlines()) == 3
    assert announcer.states() == ["given up"]
    assert announcer.tables.one("SELECT last_error FROM notice").endswith(
        "exit code 1; its last message was: no room"
    )


async def test_a_command_over_its_time_limit_is_ended_with_its_child_processes(
    settings: Settings, database: Database, announcer: Announcer, tmp_path: Path
) -> None:
    announcer.run("completed")
    program = (
        "import os, pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()} {child.pid}'); time.sleep(600)"
    )
    hook = script("slow", str(tmp_path / "out"), program=program, timeout=3)
    async with notice_sender(outgoing(settings, hooks=(hook,)), database) as tick:
        await tick()
    assert "took longer than 3 seconds" in announcer.tables.one("SELECT last_error FROM notice")
    processes = [int(process_id) for process_id in (tmp_path / "out").read_text().split()]
    await until(lambda: not any(map(alive, processes)))


async def test_child_processes_left_by_a_command_are_ended_and_it_still_succeeds(
    settings: Settings, database: Database, announcer: Announcer, tmp_path: Path
) -> None:
    announcer.run("completed")
    program = (
        "import pathlib, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path(sys.argv[1]).write_text(str(child.pid))"
    )
    async with notice_sender(
        outgoing(settings, hooks=(script("index", str(tmp_path / "out"), program=program),)), database
    ) as tick:
        await tick()
    assert announcer.states() == ["sent"]
    await until(lambda: not alive(int((tmp_path / "out").read_text())))


async def test_only_the_end_of_a_commands_output_is_kept(
    settings: Settings, database: Database, announcer: Announcer, tmp_path: Path
) -> None:
    announcer.run("completed")
    # A process of another group outlives the command, and still has its standard error.
    program = (
        "import os, stat, subprocess, sys\n"
        "sleep = (sys.executable, '-c', 'import time; time.sleep(600)')\n"
        "left = subprocess.Popen(sleep, start_new_session=True)\n"
        "for _ in range(300): print('x' * 9999, file=sys.stderr)\n"
        "open(sys.argv[1], 'w').write(f'{stat.S_ISFIFO(os.fstat(2).st_mode)} {left.pid}')\n"
        "sys.exit('no room')"
    )
    hook = script("index", str(tmp_path / "out"), program=program)
    async with notice_sender(outgoing(settings, hooks=(hook,)), database) as tick:
        await tick()
    in_no_file, left = (tmp_path / "out").read_text().split()
    os.kill(int(left), signal.SIGKILL)
    assert in_no_file == "True"
    assert announcer.tables.one("SELECT last_error FROM notice").endswith("its last message was: no room")


async def test_a_command_that_does_not_exist_is_reported(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.run("completed")
    hook = HookSettings(name="none", command=("/no/such/program",))
    async with notice_sender(outgoing(settings, hooks=(hook,)), database) as tick:
        await tick()
    assert "cannot start '/no/such/program'" in announcer.tables.one("SELECT last_error FROM notice")


async def test_a_hook_that_was_removed_from_the_settings_is_given_up(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    announcer.run("completed")
    announcer.announce(HookSettings(name="gone", command=("true",)))
    async with notice_sender(outgoing(settings), database) as tick:
        await tick()
    assert announcer.states() == ["given up"]


async def test_a_web_address_receives_the_run_and_its_first_1000_changes(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    a_run_with_changes(announcer, 1001)
    async with receiver(500) as there:
        hook = HookSettings(name="web", url=there.url)
        async with notice_sender(outgoing(settings, hooks=(hook,)), database) as tick:
            await tick()
            announcer.tables("UPDATE notice SET due = now()")
            await tick()
    first, second = there.posts
    assert (second["hook"], second["try"], second["changes_complete"]) == ("web", 2, False)
    assert len(first["changes"]) == 1000
    assert announcer.states() == ["sent"]


async def test_a_call_waits_for_earlier_calls_of_its_hook_and_repository(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    other = announcer.tables.repository("https://other.example/oai")
    for repository in (announcer.repository, announcer.repository, other):
        announcer.run("completed", repository_id=repository)
    async with receiver(500, 500) as there:
        hooks = tuple(HookSettings(name=name, url=there.url) for name in ("first", "second"))
        async with notice_sender(outgoing(settings, hooks=hooks), database) as tick:
            for _ in range(3):
                await tick()
            early = [(post["hook"], post["history_id"]) for post in there.posts]
            announcer.tables("UPDATE notice SET due = now() - interval '1 day' WHERE tries > 0")
            for _ in range(2):
                await tick()
    assert sorted(early[:2]) == [("first", 1), ("second", 1)]
    assert sorted(early[2:]) == [("first", 3), ("second", 3)]
    late = [(post["hook"], post["history_id"]) for post in there.posts[4:]]
    assert [run for hook, run in late if hook == "first"] == [1, 2]
    assert [run for hook, run in late if hook == "second"] == [1, 2]


async def test_a_hook_receives_which_interrupted_runs_its_run_resumed(
    settings: Settings, database: Database, announcer: Announcer
) -> None:
    resumed = announcer.run("failed")
    announcer.tables("UPDATE oai_history SET continued_by = :next", next=announcer.run("completed"))
    announcer.tables("UPDATE oai_history SET continued_by = NULL WHERE history_id <> :n", n=resumed)
    async with receiver() as there:
        hook = HookSettings(name="web", url=there.url)
        async with notice_sender(outgoing(settings, hooks=(hook,)), database) as tick:
            for _ in range(2):
                await tick()
    assert [(post["history_id"], post["continues"]) for post in there.posts] == [(1, []), (2, [1])]


async def test_a_running_hook_is_ended_with_its_manager_and_waits_again(
    settings: Settings, database: Database, announcer: Announcer, tmp_path: Path
) -> None:
    announcer.run("completed")
    hook = script(
        "slow",
        str(tmp_path / "out"),
        program="import os, pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)",
        timeout=600,
    )
    hasty = outgoing(settings, hooks=(hook,))
    hasty = hasty.model_copy(update={"manager": hasty.manager.model_copy(update={"stop_seconds": 0.2})})
    async with notice_sender(hasty, database) as tick:
        tick_task = asyncio.create_task(tick())
        process_id = int(await until(lambda: (tmp_path / "out").exists() and (tmp_path / "out").read_text()))
        tick_task.cancel()
    assert not alive(process_id)
    assert announcer.states() == ["waiting"]
