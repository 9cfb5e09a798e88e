"""Resumption tokens (specification, section 3.5)."""

import re
from collections.abc import Iterator
from typing import Final

from oai.datestamps import parse_datestamp
from oai.vocabulary import ErrorCode
from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.replies import Reply, Token
from provider.checking.survey import CannotBeDoneError, NotApplicableError, Survey, Walk

LIST: Final = Checklist(subject="tokens")

_SAFE: Final = re.compile(r"[A-Za-z0-9\-._~]+")


@LIST.add(
    "follow",
    "A token returns the next page",
    section="3.5",
    advice="Accept the token that was issued, percent-encoded as URLs require.",
)
def _follow(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListRecords&resumptionToken={token}")
    return verdict(any(reply.records), reply, expected="records")


@LIST.add(
    "reuse",
    "The last token can be used again",
    section="3.5",
    advice="Return the same page for the same token: harvesters repeat a request when its answer was lost.",
)
def _reuse(survey: Survey) -> Verdict:
    query = survey.query("verb=ListRecords&resumptionToken={token}")
    first, again = survey.client.get(query), survey.client.get(query, fresh=True)
    seen, repeated = ([header.identifier for header in reply.headers] for reply in (first, again))
    return verdict(
        seen and seen == repeated, again, expected="the same records", came="so" if seen == repeated else None
    )


@LIST.add(
    "reuse-headers",
    "The last token of ListIdentifiers can be used again",
    section="3.5",
    advice="Return the same page for the same token: harvesters repeat a request when its answer was lost.",
)
def _reuse_headers(survey: Survey) -> Verdict:
    query = survey.query("verb=ListIdentifiers&resumptionToken={headers_token}")
    first, again = survey.client.get(query), survey.client.get(query, fresh=True)
    same = first.headers == again.headers
    return verdict(first.headers and same, again, expected="the same headers", came="so" if same else None)


@LIST.add(
    "other-verb",
    "A ListRecords token is not valid for ListSets",
    section="3.5",
    severity=Severity.SHOULD,
    advice="Tie tokens to the verb for which they were issued.",
)
def _other_verb(survey: Survey) -> Verdict:
    reply = survey.ask("verb=ListSets&resumptionToken={token}")
    wanted = {ErrorCode.BAD_RESUMPTION_TOKEN, ErrorCode.NO_SET_HIERARCHY}
    return verdict(wanted.intersection(reply.codes), reply, expected="error badResumptionToken")


@LIST.add(
    "progress",
    "Every token is different",
    section="3.5",
    advice="Change the token with each page: a repeated token makes harvesters repeat pages endlessly.",
)
def _progress(survey: Survey) -> Verdict:
    for walk in _walks(survey):
        texts = [token.text for _, token in _tokens(walk) if token.text]
        if len(set(texts)) < len(texts):
            return verdict(passed=False, reply=walk.pages[-1], expected="a new token", came=texts[-1])
    return _all_good(survey, "a new token on each page")


@LIST.add(
    "no-empty-pages",
    "No page with a token is empty",
    section="3.5",
    advice="Fill each page or end the list: an empty page violates the schema, and harvesters stop there.",
)
def _no_empty_pages(survey: Survey) -> Verdict:
    for walk in _walks(survey):
        for page in walk.pages:
            if not page.headers and not page.texts("set"):
                return verdict(passed=False, reply=page, expected="items on each page")
    return _all_good(survey, "items on each page")


@LIST.add(
    "last-empty",
    "The last of several pages has an empty resumptionToken",
    section="3.5",
    advice="End a list of several pages with an empty resumptionToken element; do not omit it.",
)
def _last_empty(survey: Survey) -> Verdict:
    walks = [walk for walk in _ending_walks(survey) if walk.ended and len(walk.pages) > 1]
    if not walks:
        raise CannotBeDoneError("no list of several pages was short enough to be read completely")
    wrong = [walk for walk in walks if walk.pages[-1].token is None]
    page = (wrong or walks)[0].pages[-1]
    return verdict(not wrong, page, expected="<resumptionToken/>", came="none" if wrong else "so")


@LIST.add(
    "cursor",
    "cursor counts the items before the page",
    section="3.5",
    advice="Set cursor to the number of items returned so far, 0 on the first page.",
)
def _cursor(survey: Survey) -> Verdict:
    looked = False
    for walk in _walks(survey):
        before = 0
        for page, token in _tokens(walk):
            declared = token.facts.get("cursor")
            looked = looked or declared is not None
            if declared is not None and declared != str(before):
                return verdict(passed=False, reply=page, expected=str(before), came=declared)
            before += len(page.headers) or len(page.texts("setName"))
    if not looked:
        raise NotApplicableError("the tokens have no cursor")
    return _all_good(survey, "the number of items before")


@LIST.add(
    "size",
    "completeListSize is not less than the number of items received",
    section="3.5",
    severity=Severity.SHOULD,
    advice="Overestimate completeListSize rather than underestimate it, correct it on later pages, or "
    "omit it.",
)
def _size(survey: Survey) -> Verdict:
    looked = False
    for walk in _walks(survey):
        total = sum(len(page.headers) or len(page.texts("setName")) for page in walk.pages)
        for page, token in _tokens(walk):
            declared = token.facts.get("completeListSize", "")
            looked = looked or bool(declared)
            off = declared.isdigit() and (int(declared) < total or (walk.ended and int(declared) != total))
            if off:
                return verdict(passed=False, reply=page, expected=walk.described(), came=declared)
    if not looked:
        raise NotApplicableError("the tokens have no completeListSize")
    return _all_good(survey, "the number of items")


@LIST.add(
    "expiration",
    "expirationDate is in the future",
    section="3.5",
    advice="Set expirationDate later than responseDate, by a day if possible.",
)
def _expiration(survey: Survey) -> Verdict:
    looked = False
    for walk in _walks(survey):
        for page, token in _tokens(walk):
            declared = token.facts.get("expirationDate")
            looked = looked or declared is not None
            if declared is not None and not _later(declared, page.response_date):
                return verdict(
                    passed=False, reply=page, expected=f"after {page.response_date}", came=declared
                )
    if not looked:
        raise NotApplicableError("the tokens have no expirationDate")
    return _all_good(survey, "in the future")


def _later(declared: str, response_date: str) -> bool:
    try:
        return parse_datestamp(declared).moment > parse_datestamp(response_date).moment
    except ValueError:
        return False


@LIST.add(
    "safe",
    "Tokens need no encoding in URLs",
    section="3.5",
    severity=Severity.INFO,
    advice="Use only letters, digits and -._~ in tokens: many harvesters do not encode them.",
)
def _safe(survey: Survey) -> Verdict:
    token = survey.token
    return verdict(
        _SAFE.fullmatch(token), survey.records.pages[0], expected="letters, digits and -._~", came=token[:80]
    )


def _walks(survey: Survey) -> list[Walk]:
    """Return the walks that contain a resumption token."""
    walks = [walk for walk in (*survey.item_walks, survey.set_walk) if _tokens(walk)]
    if not walks:
        raise NotApplicableError("every list fits on one page, so no token was issued")
    return walks


def _ending_walks(survey: Survey) -> Iterator[Walk]:
    yield from _walks(survey)
    yield from (survey.moment_records, survey.moment_headers)


def _tokens(walk: Walk) -> list[tuple[Reply, Token]]:
    return [(page, page.token) for page in walk.pages if page.token is not None]


def _all_good(survey: Survey, expected: str) -> Verdict:
    walk = _walks(survey)[0]
    return verdict(passed=True, reply=walk.pages[-1], expected=expected, came=walk.described())
