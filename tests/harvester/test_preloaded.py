"""What is prepared before harvest processes are forked: statements are compiled, without a connection."""

from typing import Any

from sqlalchemy import TextClause, event
from sqlalchemy.engine.interfaces import CacheStats

from harvester import preloaded
from harvester.bibliographic.importer import import_after_harvest
from oai.database import open_database
from tests.harvester.library import Library


async def test_a_harvest_without_changes_compiles_no_statement(library: Library) -> None:
    await library.run()
    import_after_harvest(library.database, library.settings, library.repository_id)
    compiled, executed = [], []

    def note(*about: Any) -> None:
        _, _, statement, _, context, _ = about
        executed.append(statement)
        # A text is nearly its own compilation.
        text = isinstance(context.compiled.statement, TextClause)
        if context.cache_hit is CacheStats.CACHE_MISS and not text:
            compiled.append(statement)

    preloaded.prepare()
    with open_database(library.settings) as library.database:
        event.listen(library.database.engine, "before_cursor_execute", note)
        again = await library.run(job_id=1, full=True)
        nothing = await library.run()
        import_after_harvest(library.database, library.settings, library.repository_id)
    assert (again.counts["unchanged"], nothing.counts["records"]) == (25, 0)
    assert executed
    assert compiled == []


def test_only_the_first_database_uses_the_compiled_statements(library: Library) -> None:
    preloaded.prepare()
    with open_database(library.settings) as first, open_database(library.settings) as second:
        assert first.url == second.url == library.database.url
        for database in (first, second):
            with database.session() as session:
                assert session.connection().exec_driver_sql("SHOW TIME ZONE").scalar_one() == "UTC"
        assert first.engine.dialect is not second.engine.dialect
