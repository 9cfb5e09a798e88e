"""The order of titles and the words by which they are found, without accents and case."""

import re
from typing import Final

from oai.folding import folded, folded_sql

_WORD: Final = re.compile(r"\w+")
_SORTED: Final = 200
"""Characters of a name by which it is sorted, because an index entry is limited in size."""
_INDEXED: Final = 100_000
"""Characters of a title that are searched, because PostgreSQL limits the size of a tsvector."""


SORT_NAME: Final = f"ltrim({folded_sql(f'left(title.name, {_SORTED})')}, ' \"„“”‚‘’«»([.…')"  # noqa: RUF001 quotes
"""SQL: by what a row of `title` is sorted."""
_TEXTS: Final = (
    "concat_ws(' ', title.name, array_to_string(title.alternative_names, ' '), title.publisher,"
    " array_to_string(title.keywords, ' '), (SELECT array_to_string(alternative_names, ' ')"
    " FROM title_enrichment WHERE title_enrichment.title_id = title.title_id), title.annotation)"
)
WORDS: Final = f"to_tsvector('simple', {folded_sql(f'left({_TEXTS}, {_INDEXED})')})"
"""SQL: the words of a row of `title`."""


def prefix_query(text: str) -> str:
    """Return a tsquery for titles with words that begin like each word of the text; empty if it has none.

    >>> prefix_query("Žluťoučký kůň")
    'zlutoucky:* & kun:*'
    """
    return " & ".join(prefix_queries(text))


def prefix_queries(text: str) -> list[str]:
    """Return such a tsquery for each word of the text."""
    return [f"{word}:*" for word in _WORD.findall(folded(text))]


def folded_words(text: str) -> list[str]:
    """Return the parts of the text between blanks, in lower case without accents."""
    return folded(text).split()
