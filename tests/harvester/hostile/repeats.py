"""Scenarios that run only with `--long`, because other scenarios run the same code.

They were measured with coverage.py: the harvests of a row's scenarios run the same branches of
`harvester` and `oai` and end in the same way. The first of each row represents the others. Also left out are:

- scenarios whose harvest runs no branch that another one does not run (LOOSELY_COVERED and
  STRICTLY_COVERED), but never all scenarios of one kind with the same end;
- strict harvests that end like the lenient one, if the fault is below what strictness is
  about: in HTTP statuses, connections and tokens;
- a page of twenty thousand records, because `harvest/test_large_answers.py` has large pages;
- of the two scenarios with a text of 11 MB, the strict harvest of the one with a fault, and the lenient
  harvest of the other.
"""

import pytest

from tests.harvester.hostile.scenarios import KINDS, SCENARIOS

_NOT_CONTENT = ("HTTP statuses", "Connections", "Resumption tokens")
LOOSE = """
    declared-iso-8859-1 declared-iso-8859-2 declared-windows-1250
    declared-utf-16-is-utf-8 unknown-encoding
    one-record-in-latin-1 half-a-character surrogates
    control-character escape-character nul control-reference reference-out-of-range not-a-character
        bare-ampersand html-entity bare-less-than unquoted-attribute attribute-twice
    ampersand-in-address html-letter
    html-tag crossed-tags
    line-before-declaration php-warning-before
    blank-body-everywhere json-everywhere plain-text-everywhere
    empty-body-for-record blank-body-for-record
    status-401-lasting-at-start status-404-lasting-at-start
    status-401-lasting-at-middle status-403-lasting-at-middle status-404-lasting-at-middle
        status-410-lasting-at-middle
    status-401-lasting-at-end status-403-lasting-at-end status-404-lasting-at-end
        status-410-lasting-at-end
    status-403-lasting-at-start status-410-lasting-at-start
    status-500-lasting-at-start status-502-lasting-at-start
    status-500-lasting-at-middle status-502-lasting-at-middle
    status-429-passing-at-end retry-after-garbage
    status-500-passing-at-middle status-502-passing-at-end
    status-503-passing-at-end retry-after-negative retry-after-impossible
    status-429-lasting status-503-lasting
    retry-after-0 retry-after-blanks
    retry-after-seconds retry-after-fraction retry-after-six-times
    retry-after-hour retry-after-huge
    reset-before-answer content-length-too-short-at-end
    no-content-length gzip-lie
    content-length-too-short-once content-length-too-short-gzip
    gzip gzip-unannounced
    redirects-too-many redirect-loop
    redirect-to-file redirect-to-ftp
    token-with-ampersand token-same-with-progress token-with-quotes token-with-length token-in-lines
        token-encoded-twice token-blank-at-end token-on-identify
    token-with-plus token-with-percent token-with-letters token-with-query
    token-never-good token-status-400
    no-datestamp blank-datestamp
    datestamp-fraction datestamp-offset datestamp-impossible
    response-date-empty response-date-words
    granularity-empty granularity-nonsense
    no-namespace https-namespace namespace-without-slash
    version-1.1-said no-request schema-elsewhere
"""
STRICT = """
    declared-iso-8859-1 declared-iso-8859-2 declared-windows-1250
    charset-of-http charset-of-http-quoted
    declared-utf-16-is-utf-8 unknown-encoding
    one-record-in-latin-1 half-a-character surrogates
    control-character escape-character nul control-reference reference-out-of-range not-a-character
        ampersand-in-address html-entity html-letter bare-less-than html-tag crossed-tags
        unquoted-attribute attribute-twice unknown-prefix open-cdata closing-record undeclared-dc
        two-addresses truncated-in-record
    ampersand-in-request unknown-prefix-at-root line-before-declaration php-warning-before
        php-warning-behind
    external-entity entity-of-dtd
    html-everywhere html-for-identify
    blank-body-everywhere json-everywhere plain-text-everywhere
    html-for-record html-for-page
    empty-body-for-record blank-body-for-record
    empty-page empty-pages empty-pages-with-cursor
    size-zero size-negative
    size-growing size-shrinking
    no-identifier no-datestamp
    blank-datestamp datestamp-offset datestamp-words
    datestamp-day datestamp-fraction datestamp-future
    response-date-local response-date-fraction
    response-date-empty response-date-words
    granularity-empty granularity-lower-case granularity-nonsense
    other-prefix prefixes-at-root version-1.1-said
    no-namespace https-namespace namespace-without-slash namespace-misspelt no-namespace-and-fault
    identifiers-nul identifiers-unicode
"""
LOOSELY_COVERED = """
    ampersand-in-address ampersand-in-request blank-body-everywhere charset-of-http
    charset-of-http-against-declaration charset-of-http-lies content-length-too-long
    content-length-too-short content-length-too-short-once control-character datestamp-day
    datestamp-fraction datestamp-future datestamp-words declared-utf-16-is-utf-8 deleted-in-capitals
    deleted-with-metadata doctype empty-body-everywhere empty-body-for-record empty-body-once empty-page
    empty-pages entity-of-dtd from-ignored granularity-empty granularity-lower-case gzip html-everywhere
    html-for-identify html-for-page html-tag identifiers-absolute identifiers-blanks
    identifiers-reserved identifiers-separators identifiers-unicode identify-500-and-a-record
    identify-broken identify-broken-and-a-record identify-empty line-before-declaration list-in-rotation
    namespace-misspelt no-content-length no-identifier no-metadata no-namespace no-records-for-page
    no-response-date one-record-in-latin-1 one-record-without-namespace open-cdata other-prefix
    overlapping-pages prefixes-at-root prefixes-at-root-and-fault record-twice records-without-namespace
    redirect-nowhere redirects reset-before-answer reset-for-record reset-once reset-without-answer
    response-date-fraction retry-after-0 retry-after-date retry-after-hour retry-after-past
    retry-after-seconds same-page-for-ever size-growing size-missing size-negative size-of-page
    size-shrinking size-too-small size-zero slow-drip-once status-403-lasting-at-start
    status-404-with-answer status-429-lasting status-429-passing-at-end status-429-passing-at-middle
    status-429-passing-at-start status-500-lasting-at-end status-500-lasting-at-middle
    status-500-lasting-at-start status-500-passing-at-end status-500-passing-at-middle
    status-500-passing-at-start status-502-lasting-at-end status-502-passing-at-middle
    status-502-passing-at-start status-503-passing-at-end status-503-passing-at-middle
    status-503-passing-at-start token-attributes-nonsense token-behind-list token-with-ampersand
    token-with-blanks token-with-plus token-without-namespace truncated-in-record truncated-once
    undeclared-xsi unknown-prefix-at-root utf-16 version-1.1-said
"""
STRICTLY_COVERED = """
    bare-ampersand blank-body-everywhere blank-datestamp charset-of-http charset-of-http-lies
    control-character datestamp-day default-attributes deleted-with-metadata doctype
    empty-body-everywhere empty-body-for-record empty-body-once empty-pages-for-ever entity-bomb
    external-entity from-ignored granularity-empty identifiers-absolute identifiers-blanks
    identifiers-nul identifiers-reserved identifiers-separators identify-broken
    identify-broken-and-a-record identify-html-and-a-record list-in-rotation no-records-at-end
    no-request older-version-in-page one-record-in-latin-1 one-record-without-namespace
    overlapping-pages record-twice records-without-namespace reset-for-record schema-elsewhere
    size-growing size-missing size-too-small status-500-for-page status-unknown token-behind-list
    token-with-bare-ampersand truncated-once truncated-pages undeclared-windows-1250 undeclared-xsi
    utf-16 utf-8-with-bom
"""


def rows(table: str) -> list[list[str]]:
    """Return the names in each row of a table; more deeply indented lines continue the row before."""
    return [row.split() for row in table.replace("\n        ", " ").splitlines() if row]


def _repeated(table: str) -> frozenset[str]:
    return frozenset(name for row in rows(table) for name in row[1:])


def _marked(repeated: frozenset[str]) -> list[object]:
    """Return all scenarios as parameters; those that repeat others are marked for `--long`."""
    return [
        pytest.param(one, id=one.name, marks=[pytest.mark.long] if one.name in repeated else [])
        for one in SCENARIOS
    ]


_BELOW_STRICTNESS = frozenset(
    one.name for kind in _NOT_CONTENT for one in KINDS[kind] if one.strict == one.loose
)
LARGEST = "many-in-a-page"
ONLY_LONG_LOOSELY = _repeated(LOOSE) | {*LOOSELY_COVERED.split(), LARGEST, "huge-text"}
ONLY_LONG_STRICTLY = (
    _repeated(STRICT) | _BELOW_STRICTNESS | {*STRICTLY_COVERED.split(), LARGEST, "huge-text-and-fault"}
)
LOOSELY = _marked(ONLY_LONG_LOOSELY)
STRICTLY = _marked(ONLY_LONG_STRICTLY)
