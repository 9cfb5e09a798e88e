"""Captures that only a CDX file tells of, on their way into the documents.

The archive files get rows by their names; where they lie is not known before somebody says so or they are
indexed themselves. That later indexing completes the documents: it tells length and title, and moves nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from sqlalchemy import insert, select, text, update
from sqlalchemy.orm import Session

from provider.holdings.arcs import UNREAD, lock_name, look_at
from provider.holdings.rules import Enrolment
from provider.indexing.merging import SAME_PLACE, Merged, insert_new, rows_changed
from provider.models import Arc
from provider.reading.captures import Capture
from provider.reading.cdx_files import FaultyLine, read_cdx
from provider.reading.framing import Problem

_COUNT_ARCS: Final = """
WITH counted AS (SELECT arc_id, count(*) AS documents FROM fresh GROUP BY arc_id),
locked AS (SELECT id FROM arc JOIN counted ON arc_id = id ORDER BY id FOR NO KEY UPDATE OF arc)
UPDATE arc SET documents = arc.documents + counted.documents
FROM counted JOIN locked ON locked.id = arc_id WHERE arc.id = arc_id
"""
# Where the archive file itself was read, it knows better.
_MOVE: Final = """
UPDATE document SET "offset" = candidate."offset"
FROM candidate
WHERE document.key = candidate.key AND document.arc_id = candidate.arc_id
    AND document."offset" <> candidate."offset" AND document.length IS NULL
"""
_DIFFERENT: Final = """
SELECT candidate."offset", candidate.url FROM candidate JOIN document USING (key)
WHERE pg_temp.differ(candidate.digest, document.digest) ORDER BY candidate."offset"
"""
_MOST_PROBLEMS: Final = 1000


class ListedCaptures:
    """The captures that a CDX file tells of, with rows for their archive files; the rest is counted."""

    def __init__(
        self, session: Session, path: Path, archive_dir: Path | None, check: Callable[[int], None]
    ) -> None:
        self._session = session
        self._path = path
        self._archive_dir = archive_dir
        self._check = check
        self._arcs: dict[str, int | None] = {}
        self.ignored: Counter[str] = Counter()
        self.problems: list[Problem] = []
        self.more_problems = 0

    def __iter__(self) -> Iterator[Capture]:
        try:
            for line in read_cdx(self._path, self._check):
                if isinstance(line, FaultyLine):
                    self._add(Problem(offset=line.offset, reason=line.reason))
                elif line is None:
                    self.ignored["other"] += 1
                elif (arc_id := self._arc(line.file_name)) is not None:
                    yield Capture(
                        offset=line.offset,
                        record_type=line.record_type,
                        url=line.url,
                        host=line.host,
                        archived=line.archived,
                        http_status=line.http_status,
                        mime_type=line.mime_type,
                        digest=line.digest,
                        length=None,
                        arc_id=arc_id,
                    )
        except OSError as error:
            self._add(Problem(offset=0, reason=f"cannot be read: {error.strerror or error}"))

    def _arc(self, file_name: str) -> int | None:
        """The row of an archive file; none where it cannot be told which one is meant. Commits new rows."""
        if file_name not in self._arcs:
            lock_name(self._session, file_name.removesuffix(".gz"))
            self._arcs[file_name] = (
                self._find(file_name) if self._archive_dir is None else self._seen(file_name)
            )
            self._session.commit()
        return self._arcs[file_name]

    def _find(self, file_name: str) -> int | None:
        name = file_name.removesuffix(".gz")
        found = self._session.scalars(select(Arc.id).where(Arc.name == name)).all()
        if len(found) > 1:
            reason = f"{len(found)} archive files are named {name!r}; choose one with --archive-dir"
            self._add(Problem(offset=0, reason=reason))
            return None
        return found[0] if found else self._new(name, None)

    def _seen(self, file_name: str) -> int | None:
        """The row of a file in the archive folder, which gets its path; it is still to be read itself."""
        assert self._archive_dir is not None  # noqa: S101 `_arc` asks only then
        name = file_name.removesuffix(".gz")
        path = (self._archive_dir / file_name).absolute()
        if not path.is_file():
            return self._find(file_name)
        found = self._session.scalar(select(Arc.id).where(Arc.path == str(path)))
        if found is None:
            told = select(Arc.id).where(Arc.name == name, Arc.path.is_(None)).limit(1)
            found = self._session.scalar(told)
            if found is not None:
                values = {"path": str(path), "size": look_at(path).size}
                self._session.execute(update(Arc).where(Arc.id == found).values(values))
        return found if found is not None else self._new(name, path)

    def _new(self, name: str, path: Path | None) -> int:
        values = {
            "name": name,
            "path": None if path is None else str(path),
            "size": 0 if path is None else look_at(path).size,
            "modified": UNREAD,
        }
        return self._session.execute(insert(Arc).values(values).returning(Arc.id)).scalar_one()

    def _add(self, problem: Problem) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more_problems += 1


def merge_listed(session: Session, captures: int, datestamp: datetime, enrolment: Enrolment | None) -> Merged:
    """Insert what is new of the staged captures, and correct the places of what no file has told better.

    `captures` is how many are staged. To be run within a publishing transaction.
    """
    session.execute(text("ANALYZE candidate"))
    session.execute(text(SAME_PLACE.format(arc="candidate.arc_id")))
    new = insert_new(session, None, datestamp, enrolment)
    session.execute(text(_COUNT_ARCS))
    if new == captures:
        return Merged(new=new)
    moved = rows_changed(session, _MOVE, {})
    different = session.execute(text(_DIFFERENT)).all()
    problems = tuple(
        Problem(
            offset=row.offset, reason=f"the digest differs from that of the document {row.url!r}: not indexed"
        )
        for row in different
    )
    return Merged(new=new, moved=moved, unchanged=captures - new - moved - len(different), problems=problems)
