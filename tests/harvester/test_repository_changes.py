"""Settings that a person chooses for a repository, changed by command and by service."""

from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import select

from harvester.models import Repository
from harvester.repositories import change_repository
from oai.database import Database
from oai.errors import UsageError
from oai.failures import FailureCode
from oai.models import columns_of
from oai.reach import is_same_place
from tests.commands import results, zatva
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.library import Library

MOVED = "https://moved.example/oai"


@pytest.fixture
def number(database: Database) -> str:
    """Return the number of a repository over OAI-PMH with files in its folder."""
    with database.session() as session:
        session.add(
            repository := Repository(
                repository_name="Telč", base_url="https://telc.example/oai", base_dir="telc"
            )
        )
        session.commit()
        return str(repository.repository_id)


def test_a_command_changes_the_given_values_and_keeps_the_others(
    environment: dict[str, str], number: str
) -> None:
    (before,) = results(environment, "repository", "show", number)
    (edited,) = results(
        environment, "repository", "edit", number, "--url", MOVED, "--deletions", "mark",
        "--brake-deletions", "5",
    )  # fmt: skip
    changed = {"base_url": MOVED, "deletion_policy": "mark", "brake_deletions": 5.0}
    assert edited == {**before, **changed}
    assert results(environment, "repository", "show", number) == [edited]


def test_the_folder_of_the_files_stays_when_the_address_changes(
    environment: dict[str, str], number: str
) -> None:
    (edited,) = results(environment, "repository", "edit", number, "--url", MOVED)
    assert edited["base_dir"] == "telc"
    refused = zatva(environment, "repository", "edit", number, "--dir", "elsewhere")
    assert (refused.returncode, "unknown option --dir" in refused.stderr) == (2, True)


def test_an_empty_value_resets_an_option(environment: dict[str, str], number: str) -> None:
    given = ("--brake-deletions", "5", "--brake-updates", "120")
    (edited,) = results(environment, "repository", "edit", number, "--name", "Zámek", *given)
    assert (edited["repository_name"], edited["brake_updates"]) == ("Zámek", 120.0)
    taken_back = ("--brake-deletions", "", "--brake-updates", "default")
    (edited,) = results(environment, "repository", "edit", number, "--name", "", *taken_back)
    names = ("repository_name", "brake_deletions", "brake_updates")
    assert [edited[name] for name in names] == [None, None, None]
    done = zatva(environment, "repository", "edit", number, "--name", "")
    assert (done.returncode, f"`zatva repository refresh {number}`" in done.stderr) == (0, True)


def test_credentials_stay_with_their_host_and_are_not_lost_with_another(
    environment: dict[str, str], number: str
) -> None:
    def edited(url: str) -> str:
        return str(results(environment, "repository", "edit", number, "--url", url)[0]["base_url"])

    edited("http://me:secret@one.example/oai")
    assert edited("https://one.example/oai2") == "https://me:secret@one.example/oai2"
    refused = zatva(environment, "repository", "edit", number, "--url", "https://two.example/oai")
    assert refused.returncode == 2
    assert "https://NAME:PASSWORD@two.example/oai, or https://@two.example/oai" in refused.stderr
    assert edited("https://other:one@two.example/oai") == "https://other:one@two.example/oai"
    assert edited("https://@two.example/oai") == "https://two.example/oai"
    assert edited("https://three.example/oai") == "https://three.example/oai"


def test_an_address_with_arguments_causes_a_note(environment: dict[str, str], number: str) -> None:
    done = zatva(environment, "repository", "edit", number, "--url", "https://telc.example/oai?x=1")
    assert (done.returncode, "was not tried and has arguments" in done.stderr) == (0, True), done.stderr


WRONG: list[tuple[tuple[str, ...], str]] = [
    ((), "no changes given"),
    (("--url", ""), "'' is not a valid base URL"),
    (("--deletions", "burn"), "invalid choice: 'burn'"),
    (("--brake-deletions", "101"), "'101' is not a valid percentage; give a number from 0 to 100"),
    (("--brake-updates", "inf"), "'inf' is not a valid percentage"),
]


def test_an_invalid_edit_changes_nothing(
    environment: dict[str, str], database: Database, number: str
) -> None:
    def columns() -> dict[str, Any]:
        with database.session() as session:
            return dict(columns_of(session.get_one(Repository, int(number))))

    before = columns()
    for words, expected in WRONG:
        refused = zatva(environment, "repository", "edit", number, *words)
        assert (refused.returncode, expected in refused.stderr) == (2, True), (words, refused.stderr)
        assert columns() == before, words


def test_editing_a_missing_repository_is_rejected(environment: dict[str, str]) -> None:
    refused = zatva(environment, "repository", "edit", "9", "--name", "Nobody")
    assert (refused.returncode, "no repository 9" in refused.stderr) == (2, True)


def test_invalid_values_and_values_that_cannot_be_chosen_are_rejected(
    database: Database, number: str
) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"base_dir": "elsewhere"}, "cannot be changed"),
        ({"protocol": "sru"}, "cannot be changed"),
        ({"base_url": None}, "None is not a valid base URL"),
        ({"deletion_policy": None}, "None is not a valid policy"),
        ({"base_url": "ftp://telc.example/"}, "is not a valid base URL"),
        ({"base_url": "https://telc.example/a b"}, "is not a valid base URL"),
        ({"base_url": "z3950://telc.example:210/books"}, "is not a valid address for the protocol oai-pmh"),
        ({"repository_name": "a\nb"}, "give one line"),
        ({"repository_name": "a" * 501}, "at most 500 characters"),
    ]
    with database.session() as session:
        before = columns_of(session.get_one(Repository, int(number)))
        for columns, expected in refused:
            with pytest.raises(UsageError, match=expected):
                change_repository(session, int(number), **{"repository_name": "Other", **columns})
            assert columns_of(session.get_one(Repository, int(number))) == before
            assert not session.dirty


@pytest.mark.parametrize(
    ("url", "other", "place"),
    [
        ("http://x.example/oai", "https://x.example/oai/", "same"),
        ("http://x.example:80/oai", "https://me:secret@X.example:443/oai", "same"),
        ("http://x.example/oai", "http://y.example/oai", "another"),
        ("http://x.example/oai", "http://x.example:8080/oai", "another"),
        ("http://x.example/oai", "http://x.example/server/oai", "another"),
        ("http://x.example/oai?list=a", "http://x.example/oai?list=b", "another"),
    ],
)
def test_only_another_host_or_path_is_another_place(url: str, other: str, place: str) -> None:
    assert is_same_place(url, other) is (place == "same")


async def test_the_first_harvest_at_a_new_address_requests_all_records_and_compares_them(
    library: Library,
) -> None:
    await library.run()
    await library.run()
    (edited,) = results(library.environment, "repository", "edit", "1", "--url", library.fake.url + "/")
    edited_url = str(edited["base_url"]).rstrip("/").replace("127.0.0.1", "localhost")
    assert library.harvest_row().watermark is not None
    code, _, note = await library.command("repository", "edit", "1", "--url", edited_url)
    assert (code, "the next harvest requests all records" in note) == (0, True)
    del library.fake.items[3]
    library.fake.items += many(1, start=90)
    outcome = await library.run()
    assert library.windows()[-1] == (None, None)
    assert (outcome.counts["new"], outcome.counts["disappeared"]) == (1, 1)
    assert library.harvest_row().watermark is not None


async def test_a_harvest_during_which_the_address_changes_leaves_no_watermark(library: Library) -> None:
    moved = library.fake.url.replace("127.0.0.1", "localhost")

    async def move(asked: dict[str, str]) -> None:
        if "resumptionToken" in asked:
            library.fake.before = None
            code, _, _ = await library.command("repository", "edit", "1", "--url", moved)
            assert code == 0

    await library.run()
    library.fake.before = move
    assert (await library.run(full=True)).verdict == "complete"
    assert library.harvest_row().watermark is None
    await library.run()
    assert library.windows()[-1] == (None, None)


async def test_a_permanent_redirect_is_one_warning_that_names_the_new_address(library: Library) -> None:
    async with serve(FakeRepository(items=many(25))) as moved:
        target = moved.url
        library.fake.fault = lambda asked, _: (301, {"Location": f"{target}?{urlencode(asked)}"}, b"")
        outcome = await library.run()
        assert len(outcome.notes) == 1
        (note,) = outcome.notes
        assert note.failure is not None
        assert note.failure.code is FailureCode.ADDRESS_MOVED
        facts = {"url": library.fake.url, "target": target, "number": library.repository_id}
        assert note.failure.facts == facts
        assert f"`zatva repository edit 1 --url {target}`" in note.text
        library.fake.fault = lambda asked, _: (302, {"Location": f"{target}?{urlencode(asked)}"}, b"")
        assert (await library.run()).notes == ()


async def test_a_name_chosen_by_a_person_is_kept_when_the_repository_states_another(library: Library) -> None:
    def name() -> str | None:
        with library.database.session() as session:
            return session.scalars(select(Repository.repository_name)).one()

    def change(**columns: Any) -> None:
        with library.database.session() as session:
            change_repository(session, library.repository_id, **columns)
            session.commit()

    await library.run()
    assert name() == "Fake"
    change(repository_name=None)
    assert name() == "Fake"
    change(repository_name="Fake", deletion_policy="mark")
    library.fake.fault = lambda _, good: good.replace(b">Fake<", b">Renamed<")
    await library.run()
    assert name() == "Renamed"
    change(repository_name="Zámek")
    await library.run()
    assert name() == "Zámek"
    change(repository_name=None)
    assert name() is None
    await library.run()
    assert name() == "Renamed"


def test_a_blank_name_is_no_name(database: Database, number: str) -> None:
    with database.session() as session:
        for given, name in (("Zámek", "Zámek"), ("  ", None)):
            assert change_repository(session, int(number), repository_name=given).repository_name == name
