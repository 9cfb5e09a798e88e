"""The two steps of an import, for the command and the dashboard: what it would change, and the change.

The first step carries out the import, so that it knows the conflicts and the documents concerned, and rolls
it back. The second one does everything again; if a person has agreed to what was shown, it stops if it would
change something else.
"""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from psycopg.errors import LockNotAvailable
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.sections import ProviderSettings
from oai.sections.provider import ListMeaning
from provider.holdings.publication import CHUNK
from provider.holdings.url_key_state import settle_rule
from provider.holdings.urlkeys import WwwRule
from provider.models import Access
from provider.titles.access import MOST_COUNTED, count_pending, settle_access
from provider.titles.address_lists import closed_addresses
from provider.titles.entries import READERS, Read
from provider.titles.imports import ImportPlan, apply_import, plan_import, preview_import
from provider.titles.ranges import Conflict, RangeRules, range_rules
from provider.titles.seeder import StateRules, read_seeder, seeder_place
from provider.titles.segments import ClaimedTwice, name_conflicts

_WAIT: Final = "SET LOCAL lock_timeout = '10s'"
"""A person waits for the response, and an import by command may take minutes."""


class Incoming(Protocol):
    """Something that can be imported; both steps read it."""

    @property
    def source(self) -> str:
        """The name of the source whose titles it contains."""

    @property
    def meanings(self) -> Mapping[str, ListMeaning]:
        """What its lists of addresses mean (`provider.titles.address_lists`)."""

    def read(self) -> AbstractContextManager[Iterator[Read]]:
        """Yield the titles. Raises UsageError or RemoteError if they cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Upload:
    """A file that someone wants to import."""

    source: str
    kind: str
    """Its format, a key of `READERS`."""
    name: str
    """Its name, for messages."""
    content: bytes
    meanings: Mapping[str, ListMeaning] = field(default_factory=dict)

    @contextmanager
    def read(self) -> Iterator[Iterator[Read]]:
        """Yield the titles of the file."""
        with tempfile.TemporaryDirectory(prefix="zatva-titles-") as folder:
            file = Path(folder) / "titles"
            file.write_bytes(self.content)
            yield READERS[self.kind](file, self.name)


@dataclass(frozen=True, kw_only=True)
class LocalFile:
    """A file on this machine."""

    source: str
    kind: str
    """Its format, a key of `READERS`."""
    path: Path
    meanings: Mapping[str, ListMeaning] = field(default_factory=dict)

    @contextmanager
    def read(self) -> Iterator[Iterator[Read]]:
        """Yield the titles of the file."""
        yield READERS[self.kind](self.path)


@dataclass(frozen=True, kw_only=True)
class SeederDatabase:
    """Seeder's database, and what the settings say about its contents."""

    source: str
    address: SecretStr
    states: StateRules
    media_url: str | None
    meanings: Mapping[str, ListMeaning]

    @property
    def place(self) -> str:
        """Where it is, without the password. Raises UsageError if the address cannot be read."""
        return seeder_place(self.address.get_secret_value())

    @contextmanager
    def read(self) -> Iterator[Iterator[Read]]:
        """Yield the titles of the database."""
        yield read_seeder(self.address.get_secret_value(), self.states, media_url=self.media_url)


def seeder_database(settings: ProviderSettings, address: str | None = None) -> SeederDatabase | None:
    """Return Seeder's database at the address, or else at that of the settings; None if these have none."""
    given = settings.seeder_url if address is None else SecretStr(address)
    if given is None:
        return None
    return SeederDatabase(
        source=settings.seeder_source,
        address=given,
        states=StateRules(public=settings.seeder_public_states, ended=Access(settings.seeder_ended_access)),
        media_url=settings.seeder_media_url,
        meanings=settings.seeder_lists,
    )


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What an import would change, or has changed."""

    plan: ImportPlan
    conflicts: Sequence[ClaimedTwice]
    closed: Mapping[str, Sequence[str]]
    """For each list that opens, by key, its addresses whose captures other rules close."""
    documents: int
    """Documents that may get another access rule or set; at most `MOST_COUNTED` are counted."""
    needs_approval: bool
    """Whether it changes or removes more titles than `provider.title_change_percent`."""
    withdraws_many: bool
    """Whether it removes several titles, and more than `provider.title_change_percent` of the source's.

    A person who agrees to what was shown has to agree to this, too; the command only checks mass changes.
    """

    @property
    def is_not_counted(self) -> bool:
        """Whether there may be more documents than were counted."""
        return self.documents >= MOST_COUNTED

    @property
    def digest(self) -> str:
        """SHA-256 of what it changes, to recognise the same proposal again.

        The number of documents is not part of it, because documents are indexed all the time.
        """
        plan = self.plan
        changes: list[Any] = [
            plan.source, plan.stored, plan.unchanged, plan.kept_because, plan.warnings,
            [(one.entry.model_dump(mode="json"), one.licence) for one in plan.new],
            [(one.entry.model_dump(mode="json"), one.licence, one.fields) for one in plan.changed],
            plan.gone, [(one.place, one.reason) for one in plan.not_taken], self.conflicts,
            self.needs_approval,
            {spec: one.model_dump() for spec, one in plan.collections.changed.items()}, plan.collections.gone,
            [(one.key, one.meaning, one.access, one.addresses) for one in plan.lists],
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(changes).encode()).hexdigest()


class PlanChangedError(UsageError):
    """The import would now change something else than what was shown."""


class NeedsApprovalError(UsageError):
    """The import changes or removes more titles than the settings allow without approval."""


def propose(
    session: Session, incoming: Incoming, settings: ProviderSettings, *, waits: bool = False
) -> Proposal:
    """Return what an import would change; nothing is changed.

    With `waits`, this waits for a running import to end; otherwise it gives up after ten seconds. Raises
    UsageError or RemoteError if the titles cannot be read, and UsageError if it gives up.
    """
    proposal = _carried_out(session, incoming, settings, preview_import, waits=waits)
    proposal = replace(proposal, documents=count_pending(session))
    session.rollback()
    return proposal


def accept(
    session: Session,
    incoming: Incoming,
    settings: ProviderSettings,
    check: Callable[[ImportPlan], None] = lambda _plan: None,
    agree: Callable[[Proposal], None] = lambda _proposal: None,
    *,
    waits: bool = False,
) -> Proposal:
    """Import the titles and commit.

    `check` may raise an error about the plan before it is carried out, `agree` about its consequences before
    it is committed. With `waits`, all documents follow changed rules before this returns; otherwise the
    manager continues if they are more than one chunk. Raises the errors of `propose`.
    """

    def carry_out(session: Session, plan: ImportPlan, rules: RangeRules) -> Sequence[Conflict]:
        check(plan)
        return apply_import(session, plan, rules, margin=settings.publish_margin)

    settle_rule(session, WwwRule(settings.www_rule))
    proposal = _carried_out(session, incoming, settings, carry_out, waits=waits)
    agree(proposal)
    session.commit()
    # Not before, because those who add documents would wait.
    proposal = replace(proposal, documents=count_pending(session))
    if waits or proposal.documents <= CHUNK:
        settle_access(session, margin=settings.publish_margin)
    return proposal


def accept_shown(
    session: Session, incoming: Incoming, settings: ProviderSettings, digest: str, *, approved: bool
) -> Proposal:
    """Import the titles if the proposal is still the one with this digest.

    Raises PlanChangedError, NeedsApprovalError, and the errors of `propose`.
    """

    def agree(proposal: Proposal) -> None:
        if proposal.digest != digest:
            raise PlanChangedError(
                "The titles have changed since this plan was made. Nothing was imported; look at the new "
                "plan."
            )
        if (proposal.needs_approval or proposal.withdraws_many) and not approved:
            raise NeedsApprovalError(
                "This import changes many titles. Nothing was imported; approve the plan first."
            )

    return accept(session, incoming, settings, agree=agree)


_CarryOut = Callable[[Session, ImportPlan, RangeRules], Sequence[Conflict]]


def _carried_out(
    session: Session, incoming: Incoming, settings: ProviderSettings, carry_out: _CarryOut, *, waits: bool
) -> Proposal:
    rules = range_rules(settings)
    if not waits:
        session.execute(text(_WAIT))
    try:
        with incoming.read() as found:
            plan = plan_import(session, incoming.source, found, rules, incoming.meanings)
    except OperationalError as error:
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise UsageError("Another import of titles is running. Try again when it has ended.") from None
    session.execute(text("SET LOCAL lock_timeout = 0"))
    conflicts = carry_out(session, plan, rules)
    opening = [one for one in plan.lists if one.meaning == "open"]
    percent, withdrawn = settings.title_change_percent, len(plan.gone)
    return Proposal(
        plan=plan,
        conflicts=name_conflicts(session, conflicts),
        closed={one.key: closed_addresses(session, one.addresses) for one in opening},
        documents=0,
        needs_approval=plan.exceeds(percent),
        withdraws_many=withdrawn > 1 and withdrawn > plan.stored * percent / 100,
    )
