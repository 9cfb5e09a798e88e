"""The measured steps: harvests, the store, rules, the import, the archive, the aggregate."""

import json
import time
from collections.abc import Iterable
from functools import partial
from typing import Final

from oai.vocabulary import DeletedRecord
from tests.bench.growth_ground import Chain, Ground, Step
from tests.bench.growth_manager import JOBS, SCHEDULES
from tests.bench.numbered_repository import SET
from tests.bench.titles import FEW, MORE
from tests.bench.warcs import Shape, write_warcs
from tests.end_to_end.processes import running

_RULES: Final = (
    "<filters match=\"all\"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'"
    '</selectionNamespaces><filter xpath="//dc:identifier" regexp="[02468]$"/></filters>'
)
"""Selects every second record."""


def _harvest(ground: Ground, *options: str) -> None:
    ground.zatva("harvest", ground.url, "--out", str(ground.root / "out"), "--quiet", *options)


def _begin(ground: Ground, policy: DeletedRecord, prefix: str = "oai_dc") -> None:
    ground.repository(records=ground.size, policy=policy.value, prefix=prefix)


def _harvests(policy: DeletedRecord) -> Chain:
    return Chain(
        name=f"harvest-{policy.value}",
        steps=(
            Step(name="first", before=partial(_begin, policy=policy), work=_harvest),
            Step(name="full, nothing changed", work=lambda ground: _harvest(ground, "--full")),
            Step(
                name="incremental, all changed",
                before=lambda ground: ground.repository(version=1),
                work=_harvest,
            ),
            Step(
                name="full, all changed",
                before=lambda ground: ground.repository(version=2),
                work=lambda ground: _harvest(ground, "--full"),
            ),
            Step(
                name="full, half disappeared",
                before=lambda ground: ground.repository(gone=1),
                work=lambda ground: _harvest(ground, "--full"),
            ),
        ),
    )


def _set_harvests(policy: DeletedRecord) -> Chain:
    of_set = ("--set", SET)
    return Chain(
        name=f"set-{policy.value}",
        steps=(
            Step(
                name="first",
                before=partial(_begin, policy=policy),
                work=lambda ground: _harvest(ground, *of_set),
            ),
            # Another harvest of the same records: records that leave the set may belong to the other harvest.
            Step(name="everything beside it", work=_harvest),
            Step(
                name="full, half disappeared",
                before=lambda ground: ground.repository(gone=1),
                work=lambda ground: _harvest(ground, "--full", *of_set),
            ),
        ),
    )


def _by_identifiers(policy: DeletedRecord) -> Chain:
    by_identifiers = ("--method", "identifiers")
    return Chain(
        name=f"identifiers-{policy.value}",
        least=2500,
        steps=(
            Step(
                name="first",
                before=partial(_begin, policy=policy),
                work=lambda ground: _harvest(ground, *by_identifiers),
            ),
            Step(
                name="full, half disappeared",
                before=lambda ground: ground.repository(gone=1),
                work=lambda ground: _harvest(ground, "--full", *by_identifiers),
            ),
        ),
    )


def _prepare_store(ground: Ground) -> None:
    _begin(ground, DeletedRecord.PERSISTENT)
    _harvest(ground)


def _rebuild(ground: Ground) -> None:
    ground.zatva("store", "rebuild", "--dir", str(ground.root / "out"), "--url", ground.url, "--quiet")


def _export(ground: Ground, *what: str) -> None:
    ground.zatva("store", "export", *what, "--as", "jsonl", "--out", str(ground.root / "export"), "--quiet")


def _database(ground: Ground, *arguments: str) -> None:
    ground.zatva("database", *arguments, str(ground.root / "backup"), "--quiet")


_STORE: Final = Chain(
    name="store",
    steps=(
        Step(
            name="verify",
            before=_prepare_store,
            work=lambda ground: ground.zatva("store", "verify", "1", "--quiet"),
        ),
        Step(name="export of all", work=lambda ground: _export(ground, "1")),
        Step(name="export of a run", work=lambda ground: _export(ground, "--run", "1")),
        Step(name="list of changes", work=lambda ground: ground.zatva("job", "changes", "--quiet")),
        Step(name="rebuild, rows there", work=_rebuild),
        Step(name="database backup", work=lambda ground: _database(ground, "backup")),
        Step(name="database restore", work=lambda ground: _database(ground, "restore", "--force")),
        Step(name="repository remove", work=lambda ground: ground.zatva("repository", "remove", "1")),
        Step(name="rebuild, no rows", work=_rebuild),
        Step(
            name="verify, after the rebuild",
            work=lambda ground: ground.zatva("store", "verify", "2", "--quiet"),
        ),
    ),
)


def _prepare_rules(ground: Ground) -> None:
    (ground.root / "rules.xml").write_text(_RULES)
    _begin(ground, DeletedRecord.PERSISTENT)
    _harvest(ground, "--keep-raw")


def _replay(ground: Ground, *options: str) -> None:
    ground.zatva("rule", "replay", "1", "--filter", str(ground.root / "rules.xml"), "--quiet", *options)


def _try_rules(ground: Ground) -> None:
    ground.zatva(
        "rule", "try", str(ground.root / "rules.xml"), "--repository", "1",
        "--records", str(ground.size), "--seconds", "3600", "--quiet",
    )  # fmt: skip


_RULE_STEPS: Final = Chain(
    name="rules",
    steps=(
        Step(name="try on stored records", before=_prepare_rules, work=_try_rules),
        Step(name="rehearse a replay", work=_replay),
        Step(name="apply a replay", work=lambda ground: _replay(ground, "--apply")),
    ),
)


def _prepare_import(ground: Ground) -> None:
    _begin(ground, DeletedRecord.PERSISTENT, prefix="marc21")
    _harvest(ground, "--format", "marc21")


def _import(ground: Ground, *options: str) -> None:
    ground.zatva("import", "run", "--repository", "1", "--quiet", *options)


def _change_marc(ground: Ground) -> None:
    ground.repository(version=1)
    _harvest(ground, "--format", "marc21")


def _lose_marc(ground: Ground) -> None:
    ground.repository(gone=1)
    _harvest(ground, "--format", "marc21", "--full")


def _search(ground: Ground, *what: str) -> None:
    ground.zatva("import", "search", "--quiet", *what)


def _refuse_all(ground: Ground) -> None:
    ground.zatva("import", "set", "add", "nothing", "--where", "245$a contains zzz", "--quiet")
    ground.zatva("import", "source", "1", "--set", "nothing", "--quiet")


_IMPORT: Final = Chain(
    name="import",
    steps=(
        Step(name="all new", before=_prepare_import, work=_import),
        Step(name="nothing changed", work=_import),
        Step(name="search for a word", work=lambda ground: _search(ground, "slovník")),
        Step(name="search for a phrase", work=lambda ground: _search(ground, '"dějiny a rukopis"')),
        Step(name="search by number", work=lambda ground: _search(ground, "--identifier", "bench000000011")),
        Step(name="search, by title", work=lambda ground: _search(ground, "--order", "title")),
        Step(name="facets of everything", work=lambda ground: _search(ground, "--facets")),
        Step(name="all changed", before=_change_marc, work=_import),
        Step(name="half deleted", before=_lose_marc, work=_import),
        Step(name="all filtered out", before=_refuse_all, work=_import),
        Step(name="nothing changed, all filtered out", work=_import),
        Step(name="repository remove", work=lambda ground: ground.zatva("repository", "remove", "1")),
    ),
)


def _write_archive(ground: Ground) -> None:
    list(write_warcs(ground.root / "archive", ground.size, Shape.TINY_PAGES))


def _index(ground: Ground, *options: str) -> None:
    ground.zatva("provider", "index", str(ground.root / "archive"), "--quiet", *options)


def _write_and_index(ground: Ground) -> None:
    _write_archive(ground)
    _index(ground)
    _wait_until_due(ground)


def _wait_until_due(ground: Ground) -> None:
    """Wait for the documents' datestamps, some seconds ahead.

    Before that they are not listed, and changes would not need to update their datestamps.
    """
    while ground.query("SELECT max(datestamp) > clock_timestamp() FROM document") == [(True,)]:
        time.sleep(0.2)


def _collection(ground: Ground, *arguments: str) -> None:
    ground.zatva("provider", "collection", *arguments, "--quiet")


def _provider(ground: Ground, *arguments: str) -> None:
    ground.zatva("provider", *arguments, "--quiet")


def _restore(ground: Ground) -> None:
    with running(
        ground.environment,
        ground.root / "serve.log",
        "provider",
        "serve",
        "--port",
        "0",
        ready="provider at",
        fresh=True,
    ) as (_, base_url):
        ground.zatva("restore", "domain:cz", str(ground.root / "restored"), "--from", base_url, "--quiet")


_EVERYTHING: Final = ("--url-prefix", "http://www")

_ARCHIVE: Final = Chain(
    name="archive",
    steps=(
        Step(name="index", before=_write_archive, work=_index),
        Step(name="index again", work=lambda ground: _index(ground, "--again")),
        Step(
            name="collection assign",
            before=lambda ground: _collection(ground, "add", "serials:nov07"),
            work=lambda ground: _collection(ground, "assign", "serials:nov07", *_EVERYTHING),
        ),
        Step(
            name="collection move",
            before=_wait_until_due,
            work=lambda ground: _collection(ground, "move", "serials", "journals"),
        ),
        Step(
            name="access withheld", work=lambda ground: _collection(ground, "access", "journals", "withheld")
        ),
        Step(name="access open", work=lambda ground: _collection(ground, "access", "journals", "open")),
        Step(name="hide", work=lambda ground: _provider(ground, "hide", *_EVERYTHING)),
        Step(name="unhide", work=lambda ground: _provider(ground, "unhide", *_EVERYTHING)),
        Step(name="verify", work=lambda ground: _provider(ground, "verify")),
        Step(name="find", work=lambda ground: _provider(ground, "find", "*.cz", "--limit", "1000")),
        Step(name="status", work=lambda ground: _provider(ground, "status")),
        Step(name="statistics", work=lambda ground: _provider(ground, "statistics")),
        Step(
            name="collection remove",
            work=lambda ground: _collection(ground, "remove", "journals:nov07", *_EVERYTHING),
        ),
    ),
)

_RESTORE: Final = Chain(
    name="restore", least=5000, steps=(Step(name="a domain", before=_write_and_index, work=_restore),)
)


_DOCUMENTS_OF_TITLE: Final = 10
_HOSTS: Final = 1200
"""Hosts of the archive (`tests.bench.warcs`); further titles are sections of them."""
_TITLES: Final = "titles.jsonl"


def _prepare_titles(ground: Ground) -> None:
    _write_and_index(ground)
    _write_titles(ground, range(_titles(ground)))


def _titles(ground: Ground) -> int:
    return ground.size // _DOCUMENTS_OF_TITLE


def _write_titles(ground: Ground, places: Iterable[int]) -> None:
    """Write one title for each place: a host, or a section of one."""
    lines = []
    for number, place in enumerate(places):
        section, host = divmod(place, _HOSTS)
        site = f"http://www{host % 4 + 1}.site{host // 4 % 100 + 1}.{('cz', 'sk', 'eu')[host // 400]}/"
        url = f"{site}section/{section}/" if section else site
        lines.append(json.dumps({"key": str(number), "name": f"Title {number}", "seeds": [{"url": url}]}))
    (ground.root / _TITLES).write_text("\n".join(lines) + "\n")


def _move_seed(ground: Ground) -> None:
    """Let the last title have the section after its own."""
    last = _titles(ground) - 1
    _write_titles(ground, [*range(last), last + _HOSTS])


def _import_titles(ground: Ground) -> None:
    _provider(ground, "titles", "import", str(ground.root / _TITLES), "--source", "bench")


def _add_captures(ground: Ground, statement: str) -> None:
    ground.query(statement)
    _wait_until_due(ground)


def _update_titles(ground: Ground) -> None:
    _provider(ground, "titles", "update")


_TITLE_STEPS: Final = Chain(
    name="titles",
    steps=(
        Step(name="import, all captures counted", before=_prepare_titles, work=_import_titles),
        Step(name="import again, nothing changed", work=_import_titles),
        Step(name="import, one seed changed", before=_move_seed, work=_import_titles),
        Step(
            name="update, 1,000 further captures",
            before=partial(_add_captures, statement=FEW),
            work=_update_titles,
        ),
        Step(
            name="update, as many further captures",
            before=partial(_add_captures, statement=MORE),
            work=_update_titles,
        ),
    ),
)


def _add_source(ground: Ground) -> None:
    _begin(ground, DeletedRecord.PERSISTENT)
    _harvest(ground)
    _aggregate(ground, "add", "1")


def _aggregate(ground: Ground, *arguments: str) -> None:
    ground.zatva("provider", "aggregate", *arguments, "--quiet")


def _update_aggregate(ground: Ground) -> None:
    _aggregate(ground, "update")


def _change_source(ground: Ground) -> None:
    ground.repository(version=1)
    _harvest(ground)


def _lose_records(ground: Ground) -> None:
    ground.repository(gone=1, version=2)
    _harvest(ground)


def _add_second_source(ground: Ground) -> None:
    """Add a second repository with the same records."""
    ground.zatva("harvest", ground.url, "--out", str(ground.root / "other"), "--quiet")
    _aggregate(ground, "add", "2", "--set", "second")


_AGGREGATE: Final = Chain(
    name="aggregate",
    steps=(
        Step(name="update, all new", before=_add_source, work=_update_aggregate),
        Step(name="update, all changed", before=_change_source, work=_update_aggregate),
        Step(name="update, half deleted", before=_lose_records, work=_update_aggregate),
        Step(name="update --whole", work=lambda ground: _aggregate(ground, "update", "--whole")),
        Step(name="update, a second source of all", before=_add_second_source, work=_update_aggregate),
        Step(name="status", work=lambda ground: _aggregate(ground, "status")),
        Step(
            name="update, a source withdrawn",
            before=lambda ground: _aggregate(ground, "remove", "1"),
            work=_update_aggregate,
        ),
    ),
)

CHAINS: Final = (
    *map(_harvests, (DeletedRecord.NO, DeletedRecord.TRANSIENT, DeletedRecord.PERSISTENT)),
    *map(_set_harvests, (DeletedRecord.NO, DeletedRecord.TRANSIENT, DeletedRecord.PERSISTENT)),
    *map(_by_identifiers, (DeletedRecord.NO, DeletedRecord.TRANSIENT, DeletedRecord.PERSISTENT)),
    _STORE,
    _RULE_STEPS,
    _IMPORT,
    _ARCHIVE,
    _RESTORE,
    _TITLE_STEPS,
    _AGGREGATE,
    SCHEDULES,
    JOBS,
)
