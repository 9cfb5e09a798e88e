"""A walk over all that a source has, piece by piece: where it is new, or withdrawn, or the feed broke."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from provider.aggregate import sources
from provider.aggregate.gathering import Gatherer
from provider.aggregate.merging import Staged
from provider.aggregate.models import AggregateSource

Piece = Callable[[Gatherer, AggregateSource, int], Sequence[Staged]]


def walk(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    """The next piece of the source's walk, of at most so many records; notes in the source how far it is."""
    return _PIECES[source.walk](gatherer, source, most) if source.walk else ()


def _records(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    rows = gatherer.after(source, most)
    if rows:
        source.walked_prefix, source.walked_key = rows[-1].metadata_prefix, rows[-1].identifier_key
    if len(rows) < most:
        source.walk = sources.GONE
    return gatherer.staged(source, rows)


def _gone(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    return gatherer.leaving(source, most, withdrawn=False)


def _withdrawal(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    return gatherer.leaving(source, most, withdrawn=True)


_PIECES: Mapping[str, Piece] = MappingProxyType(
    {sources.RECORDS: _records, sources.GONE: _gone, sources.WITHDRAWAL: _withdrawal}
)
