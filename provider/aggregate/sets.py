"""The sets that records' headers name: made below their source's when a record first names them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from provider.aggregate import harvested
from provider.aggregate.models import AggregateSet
from provider.aggregate.naming import above, given_set


@dataclass(kw_only=True)
class SourceSets:
    """The sets of one source. For one transaction."""

    session: Session
    repository_id: int
    source: str
    """Its own set."""
    known: dict[str, AggregateSet] = field(default_factory=dict)
    """By the source's spelling."""

    def learn(self, specs: Iterable[str]) -> None:
        """Have rows for these sets and those above them."""
        wanted = {spec: None for one in specs for spec in above(one) if spec not in self.known}
        if not wanted:
            return
        spelt = [given_set(self.source, spec) for spec in wanted]
        rows = self.session.scalars(select(AggregateSet).where(AggregateSet.set_spec.in_(spelt)))
        self.known |= {row.harvested_spec: row for row in rows}
        missing = [spec for spec in wanted if spec not in self.known]
        names = self._names(missing)
        # Those above come before those below: `above` gives them so.
        for spec in missing:
            self.known[spec] = self._made(spec, names.get(spec) or spec)

    def numbers(self, specs: Iterable[str]) -> list[int]:
        """Ids of sets that were learnt, in order."""
        return sorted({self.known[spec].id for spec in specs})

    def _names(self, specs: list[str]) -> dict[str, str]:
        if not specs:
            return {}
        told = harvested.SET.c
        rows = self.session.execute(
            select(told.set_spec, told.set_name).where(
                told.repository_id == self.repository_id, told.set_spec.in_(specs)
            )
        )
        return {row.set_spec: row.set_name for row in rows}

    def _made(self, spec: str, name: str) -> AggregateSet:
        upper = self.known.get(spec.rpartition(":")[0]) if ":" in spec else None
        made = AggregateSet(
            repository_id=self.repository_id,
            set_spec=given_set(self.source, spec),
            harvested_spec=spec,
            name=name,
            lineage=[],
        )
        self.session.add(made)
        self.session.flush()
        made.lineage = [*(upper.lineage if upper else ()), made.id]
        return made
