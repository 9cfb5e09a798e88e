"""Harvests miss no change, whatever is indexed, hidden and reassigned while they run.

Publishing runs in separate threads, in transactions of random length, at the same time as harvests.
Each run has a seed; because of the threads its course varies, but the assertions hold for every course.
"""

import functools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from oai.database import Database, open_database
from oai.settings import Settings
from oai.vocabulary import OAI_NAMESPACE
from provider.holdings.collections import add_collection, assign, lineage, remove
from provider.holdings.identifiers import oai_identifier
from provider.holdings.mark import advance_mark
from provider.holdings.selection import Selection, hide, unhide
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Collection, Document, DocumentCollection, PublicationMark
from provider.protocol.replicas import Replicas
from provider.protocol.repository import Repository, make_repository
from tests.provider.answer import Reply, read_reply
from tests.provider.archives import Page, write_pages
from tests.provider.conftest import BASE_URL
from tests.provider.holdings.replicated import Copy, Replicated, replicated, wait_for_copies, watched
from tests.provider.served import until

OAI = f"{{{OAI_NAMESPACE}}}"
MARGIN = 0.3
LEAF, PARENT = "collection:serials:nov07", "collection:serials"
SCOPES = (None, LEAF, PARENT)
HOSTS = tuple(f"http://h{number}.example/" for number in range(4))
INDEXING, HIDING, FILING = 2, 1, 1
ROUNDS = 3
PAUSE = 0.2
"""Seconds between two harvests: without it, harvests take the processor's time from what they run beside."""
_STARTING_POINTS = 3
"""Incremental harvests ask for what is new since more different seconds than these."""

# Statements are slow, and commits of files slower than they are dated ahead.
SLOWNESS = """
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(random() * 0.25); RETURN NULL; END';
CREATE FUNCTION linger_at_times() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN IF random() < 0.5 THEN PERFORM pg_sleep(random() * 2); END IF; RETURN NULL; END';
CREATE TRIGGER slow_statement AFTER INSERT OR UPDATE ON document
    FOR EACH STATEMENT EXECUTE FUNCTION linger();
CREATE CONSTRAINT TRIGGER slow_commit AFTER INSERT OR UPDATE ON arc DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION linger_at_times();
"""

State = dict[str, tuple[str, bool, tuple[str, ...]]]
"""By identifier: datestamp, whether deleted, and setSpecs."""


@dataclass(kw_only=True)
class Scene:
    """An archive with publishing going on, and two instances of the provider with pages of other sizes."""

    database: Database
    loading: Database
    """The same, over connections of the indexers' own."""
    folder: Path
    instances: list[Repository] = field(default_factory=list)
    servers: Replicated | None = None
    walked: int = 0
    """Pages of whole lists."""
    done: threading.Event = field(default_factory=threading.Event)
    reading: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, chance: random.Random, **arguments: str) -> Reply:
        pairs = [(name.rstrip("_"), value) for name, value in arguments.items()]
        answer = chance.choice(self.instances).answer(pairs)
        # The schemas for validation are loaded at the first reading, which is not thread-safe.
        with self.reading:
            reply = read_reply(answer.body)
        assert all(stamp <= reply.response_date for stamp, *_ in headers(reply).values())
        return reply

    def walk(self, chance: random.Random, **arguments: str) -> Iterator[Reply]:
        """Yield a list page by page, with pauses, from any instance; a token is sometimes reused."""
        page = self.ask(chance, metadataPrefix="oai_dc", **arguments)
        while True:
            yield page
            if not page.token:
                return
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.3)
            following = {"verb": arguments["verb"], "resumptionToken": page.token}
            if chance.random() < 0.1:
                self.ask(chance, **following)
            page = self.ask(chance, **following)

    def existing(self, scope: str | None) -> dict[str, tuple[datetime, bool]]:
        """Return the stored documents of a scope up to the mark, by identifier."""
        due = select(PublicationMark.moment).scalar_subquery()
        rows = select(Document.key, Document.datestamp, Document.deleted).where(Document.datestamp <= due)
        if scope is not None:
            rows = (
                rows.join(DocumentCollection, DocumentCollection.document_id == Document.id)
                .join(Collection, Collection.id == DocumentCollection.collection_id)
                .where(Collection.set_spec == scope)
            )
        with self.database.session() as session:
            found = session.execute(rows).all()
        namespace = self.instances[0].site.settings.namespace
        return {oai_identifier(namespace, key): (stamp, deleted) for key, stamp, deleted in found}


@pytest.fixture
def scene(settings: Settings, tmp_path: Path) -> Iterator[Scene]:
    with open_database(settings, pool_size=24) as database, open_database(settings) as loading:
        yield begun(Scene(database=database, loading=loading, folder=tmp_path), settings)


@pytest.fixture
def replicated_scene(settings: Settings, quick_folder: Path, tmp_path: Path) -> Iterator[Scene]:
    """The same scene on two replicas, each of which sometimes stops replaying."""
    with replicated(quick_folder, copies=2) as servers:
        copies = [copy.database for copy in servers.copies]
        replicas = Replicas(servers.primary, copies, most_behind=60)
        scene = Scene(database=servers.primary, loading=servers.primary, folder=tmp_path, servers=servers)
        with watched(replicas):
            until(lambda: replicas.usable == len(copies))
            yield begun(scene, settings, replicas)


def begun(scene: Scene, settings: Settings, replicas: Replicas | None = None) -> Scene:
    """Fill the archive, and serve it by two instances."""
    with scene.database.session() as session:
        add_collection(session, LEAF)
        session.commit()
    for size in (4, 9):
        sizes = {"records_per_answer": size, "headers_per_answer": size + 2}
        chosen = settings.provider.model_copy(update=sizes)
        scene.instances.append(make_repository(chosen, scene.database, BASE_URL, replicas))
    load(scene, random.Random(0), "beginning", pages=60)
    settle(scene)
    with scene.database.session() as session:
        session.execute(text(SLOWNESS))
        session.commit()
    return scene


def load(scene: Scene, chance: random.Random, name: str, *, pages: int) -> None:
    """Index a new file, into the collection or not."""
    with scene.database.session() as session:
        family = lineage(session, LEAF)
    written = [Page(url=f"{chance.choice(HOSTS)}{name}/{number}") for number in range(pages)]
    path = write_pages(scene.folder / f"{name}.warc", written)
    collections = family if chance.random() < 0.5 else ()
    report = index_file(scene.loading, path, IndexOptions(margin=MARGIN, collections=collections))
    assert report.merged.new == pages, report


def keep_loading(scene: Scene, chance: random.Random, name: str) -> None:
    load(scene, chance, f"{name}-{chance.random()}", pages=chance.randint(1, 25))


def hide_or_show(scene: Scene, chance: random.Random, _: str) -> None:
    with scene.database.session() as session:
        chance.choice((hide, hide, unhide))(session, random_selection(chance), margin=MARGIN)


def reassign(scene: Scene, chance: random.Random, _: str) -> None:
    with scene.database.session() as session:
        chance.choice((assign, remove))(session, LEAF, random_selection(chance), margin=MARGIN)


def random_selection(chance: random.Random) -> Selection:
    return Selection(url_prefix=f"{chance.choice(HOSTS)}beginning/{chance.randint(1, 5)}")


Action = Callable[[Scene, random.Random, str], None]


def settle(scene: Scene) -> None:
    """Wait until the mark has reached all published changes."""
    with scene.database.session() as session:
        due = select(PublicationMark.moment).scalar_subquery()
        while not session.scalar(select(func.max(Document.datestamp) <= due)):
            advance_mark(session)
            time.sleep(0.05)


def publish_beside(
    scene: Scene,
    seed: int,
    harvests: list[Callable[[], None]],
    have_enough: Callable[[], bool] = lambda: True,
) -> None:
    """Run harvests during publishing, for this number of rounds and until they have seen enough changes."""
    actions: list[Action] = [*[keep_loading] * INDEXING, *[hide_or_show] * HIDING, *[reassign] * FILING]

    def work(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        rounds = 0
        # A harvest that has failed ends the test.
        while rounds < ROUNDS or not (have_enough() or any(one.done() for one in harvesting)):
            rounds += 1
            actions[number](scene, chance, f"{seed}-{number}")
            time.sleep(chance.random() * 0.2)

    with ThreadPoolExecutor(len(actions) + len(harvests)) as pool:
        harvesting: list[Future[None]] = [pool.submit(harvest) for harvest in harvests]
        try:
            for working in [pool.submit(work, number) for number in range(len(actions))]:
                working.result()
        finally:
            scene.done.set()
        for harvest in harvesting:
            harvest.result()


def keep_walking(scene: Scene, seed: str) -> None:
    """Read complete lists; each must contain the records that exist both before and after it."""
    chance = random.Random(seed)
    while not scene.done.is_set():
        scope = chance.choice(SCOPES)
        verb = chance.choice(("ListRecords", "ListIdentifiers"))
        before = scene.existing(scope)
        arguments = {} if scope is None else {"set": scope}
        pages = list(scene.walk(chance, verb=verb, **arguments))
        seen = {identifier for page in pages for identifier in page.identifiers}
        gone = {identifier for page in pages for identifier in page.deleted}
        after = scene.existing(scope)
        for identifier, facts in before.items():
            if after.get(identifier) == facts:
                assert identifier in seen, f"{identifier} of {facts} is missing in {scope} ({verb})"
                assert (identifier in gone) == facts[1]
        scene.walked += len(pages)
        time.sleep(PAUSE)


def by_response_date(pages: list[Reply]) -> str:
    return pages[0].response_date


def by_latest_datestamp(pages: list[Reply]) -> str:
    """Return the next `from` as harvesters compute it that do not trust the server's clock."""
    return max((stamp for page in pages for stamp, *_ in headers(page).values()), default="")


@pytest.mark.parametrize(
    ("seed", "next_from"),
    [(3, by_response_date), pytest.param(4, by_latest_datestamp, marks=pytest.mark.long)],
)
def test_full_lists_are_complete_and_incremental_harvests_equal_a_full_one(
    scene: Scene, seed: int, next_from: Callable[[list[Reply]], str]
) -> None:
    walks = [functools.partial(keep_walking, scene, f"{seed} walk {number}") for number in range(2)]
    harvest_beside(scene, seed, next_from, walks)
    assert scene.walked > 30


def harvest_beside(
    scene: Scene,
    seed: int,
    next_from: Callable[[list[Reply]], str],
    others: Sequence[Callable[[], None]] = (),
) -> None:
    """Harvest changes repeatedly while others publish; in the end, none is missing."""
    chance = random.Random(seed)
    state: State = {}
    since: list[str] = []

    def one_round() -> None:
        from_ = {"from_": since[-1]} if since else {}
        pages = list(scene.walk(chance, verb="ListIdentifiers", **from_))
        for page in pages:
            state.update(headers(page))
        since.append(next_from(pages) or since[-1])

    def keep_up() -> None:
        while not scene.done.is_set():
            one_round()
            time.sleep(chance.random() * PAUSE)

    publish_beside(scene, seed, [keep_up, *others], lambda: len(set(since)) > _STARTING_POINTS)
    settle(scene)
    if scene.servers is not None:
        wait_for_copies(scene.servers)
    one_round()
    full: State = {}
    for page in scene.walk(chance, verb="ListIdentifiers"):
        full.update(headers(page))
    assert len(full) > 60
    assert len(set(since)) > _STARTING_POINTS
    assert state == full


def test_incremental_harvests_from_replicas_equal_a_full_one(replicated_scene: Scene) -> None:
    servers = replicated_scene.servers
    assert servers is not None

    def hold_up(copy: Copy) -> None:
        chance = random.Random(copy.folder.name)
        while not replicated_scene.done.is_set():
            copy.pause()
            time.sleep(2 * chance.random())
            copy.resume()
            time.sleep(chance.random())

    with ThreadPoolExecutor(len(servers.copies)) as pool:
        holding = [pool.submit(hold_up, copy) for copy in servers.copies]
        harvest_beside(replicated_scene, 5, by_response_date)
        for one in holding:
            one.result()


def headers(page: Reply) -> State:
    return {
        str(header.findtext(f"{OAI}identifier")): (
            str(header.findtext(f"{OAI}datestamp")),
            header.get("status") == "deleted",
            tuple(str(found.text) for found in header.iterchildren(f"{OAI}setSpec")),
        )
        for header in page.root.iter(f"{OAI}header")
    }
