"""A lock prevents harvests of a repository, with or without a manager, until it is deleted or expires."""

from sqlalchemy import text

from oai.errors import ExitCode
from oai.failures import FailureCode
from tests.harvester.library import Library
from tests.manager.conftest import Tables


def lock(library: Library, *, hours: int = 1) -> None:
    Tables(library.database).add(
        "oai_repository_lock",
        repository_id=library.repository_id,
        holder="xpat",
        reason="builds the index",
        expires=Tables(library.database).one(f"SELECT now() + interval '{hours} hours'"),
    )


async def test_a_harvest_of_a_locked_repository_does_not_start(library: Library) -> None:
    lock(library)
    outcome = await library.run()
    assert (outcome.exit_code, outcome.in_words()) == (ExitCode.TRY_LATER, "The harvest did not start.")
    assert "is locked by xpat until 2" in (outcome.failure_reason or "")
    (row,) = library.history()
    assert (row.failure_code, (row.failure_facts or {})["reason"]) == (
        FailureCode.REPOSITORY_LOCKED,
        "builds the index",
    )
    assert library.fake.asked == []


async def test_an_expired_lock_has_no_effect(library: Library) -> None:
    lock(library, hours=-1)
    assert (await library.run()).verdict == "complete"


async def test_a_running_harvest_is_not_interrupted(library: Library) -> None:
    async def set_lock(arguments: dict[str, str]) -> None:
        if arguments.get("resumptionToken", "").startswith("10"):
            lock(library)

    library.fake.before = set_lock
    assert (await library.run()).verdict == "complete"


async def test_commands_show_the_lock_and_unlock_the_repository(library: Library) -> None:
    lock(library)
    number = str(library.repository_id)
    code, _out, stderr = await library.command("harvest", number)
    assert (code, "locked by xpat" in stderr, "zatva repository unlock" in stderr) == (75, True, True)
    code, out, _said = await library.command("repository", "show", number)
    assert (code, "builds the index" in out) == (0, True)
    code, out, _said = await library.command("repository", "unlock", number)
    assert (code, out) == (0, f"repository {number} is no longer locked by xpat\n")
    with library.database.session() as session:
        entry = session.execute(text("SELECT action, after FROM web_audit WHERE action LIKE '%unlock'")).one()
    assert tuple(entry) == ("repository.unlock", {"cleared": ["xpat"]})
    code, _out, stderr = await library.command("repository", "unlock", number)
    assert (code, "is not locked" in stderr) == (2, True)
