"""Words without accents and case, for the search in titles: the same in the database and in a query.

PostgreSQL folds alone, without its extension `unaccent`, which a database's owner may not be allowed to add:
letters are decomposed (Unicode Standard Annex 15, NFKD) and lose their combining marks.
"""

import re
import unicodedata
from typing import Final

_MARKS: Final = "\u0300-\u036f"
_MARK: Final = re.compile(f"[{_MARKS}]")
_WORD: Final = re.compile(r"\w+")
_SORTED: Final = 200
"""Characters of a name by which it is sorted, because an index entry is limited in size."""
_INDEXED: Final = 100_000
"""Characters of a title that are searched, because PostgreSQL limits the size of a tsvector."""


def folded(expression: str) -> str:
    """Return SQL: the text of an expression in lower case without accents."""
    return f"lower(regexp_replace(normalize({expression}, NFKD), '[{_MARKS}]', '', 'g'))"


SORT_NAME: Final = f"ltrim({folded(f'left(title.name, {_SORTED})')}, ' \"„“”‚‘’«»([.…')"  # noqa: RUF001 quotes
"""SQL: by what a row of `title` is sorted."""
_TEXTS: Final = (
    "concat_ws(' ', title.name, array_to_string(title.alternative_names, ' '), title.publisher,"
    " array_to_string(title.keywords, ' '), (SELECT array_to_string(alternative_names, ' ')"
    " FROM title_enrichment WHERE title_enrichment.title_id = title.title_id), title.annotation)"
)
WORDS: Final = f"to_tsvector('simple', {folded(f'left({_TEXTS}, {_INDEXED})')})"
"""SQL: the words of a row of `title`."""


def prefix_query(text: str) -> str:
    """Return a tsquery for titles with words that begin like each word of the text; empty if it has none.

    >>> prefix_query("Žluťoučký kůň")
    'zlutoucky:* & kun:*'
    """
    return " & ".join(prefix_queries(text))


def prefix_queries(text: str) -> list[str]:
    """Return such a tsquery for each word of the text."""
    return [f"{word}:*" for word in _WORD.findall(_plain(text))]


def folded_words(text: str) -> list[str]:
    """Return the parts of the text between blanks, in lower case without accents."""
    return _plain(text).split()


def _plain(text: str) -> str:
    return _MARK.sub("", unicodedata.normalize("NFKD", text)).lower()
