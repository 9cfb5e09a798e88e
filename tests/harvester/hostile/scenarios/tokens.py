"""Resumption tokens that repeat, need encoding, expire, are blank, or are in the wrong place."""

import re
from collections.abc import Callable
from urllib.parse import quote

from oai.xml import escape
from tests.harvester.fake_repository import FakeRepository
from tests.harvester.hostile.faults import edited, first_times, to_verb
from tests.harvester.hostile.scenario import (
    ITEMS,
    WHOLE,
    Scenario,
    scenario,
    stopped,
)
from tests.harvester.hostile.server import Ask, Fault

_TOKEN = re.compile(rb"(<resumptionToken[^>]*>)([^<]*)(</resumptionToken>)")
_GOOD = FakeRepository(items=list(ITEMS), now="2024-06-01T12:00:00Z")
_BAD = {"verb": "ListRecords", "resumptionToken": "no such token"}


def _rewritten(outside: Callable[[str], str], inside: Callable[[str], str]) -> Fault:
    """Rewrite tokens; `inside` returns the token of the good server."""

    def fault(ask: Ask) -> bytes:
        arguments = dict(ask.arguments)
        if "resumptionToken" in arguments:
            arguments["resumptionToken"] = inside(arguments["resumptionToken"])
        _GOOD.url = ask.base
        good = _GOOD.answer(arguments).encode()
        return _TOKEN.sub(
            lambda found: found[1] + escape(outside(found[2].decode())).encode() + found[3]
            if found[2] else found[0],
            good,
        )  # fmt: skip

    return fault


def _wrapped(before: str, after: str) -> Fault:
    return _rewritten(
        lambda token: before + token + after,
        lambda token: token.removeprefix(before).removesuffix(after),
    )


def _replaced(new: bytes) -> Fault:
    """Replace every token that is not empty."""
    return edited(
        lambda good: _TOKEN.sub(lambda found: found[1] + new + found[3] if found[2] else found[0], good)
    )


def _one_for_all() -> Fault:
    """Use one token for the whole list; the server remembers the position."""
    place = [0]

    def outside(token: str) -> str:
        place[0] = int(token.partition("|")[0])
        return "same"

    return _rewritten(outside, lambda token: f"{place[0]}|||" if token == "same" else token)


def _back_to_start() -> Fault:
    """Make the second page's token lead to the second page again, whatever the window."""
    return edited(lambda good: _TOKEN.sub(
        lambda found: found[1] + found[2].replace(b"20|", b"10|") + found[3], good))  # fmt: skip


def _refused(ask: Ask) -> bytes | None:
    """Reject every token."""
    if "resumptionToken" not in ask.arguments:
        return None
    return _GOOD.answer(_BAD).encode()


def _behind_list(good: bytes) -> bytes:
    found = _TOKEN.search(good)
    if found is None:
        return good
    rest = good.replace(found[0], b"")
    return rest.replace(b"</ListRecords>", b"</ListRecords>" + found[0])


def _bare_ampersand(good: bytes) -> bytes:
    return _TOKEN.sub(
        lambda found: found[1] + found[2].replace(b"|", b"&x=") + found[3] if found[2] else found[0], good
    )


def _bare_ampersand_back(ask: Ask) -> bytes:
    arguments = {name: value.replace("&x=", "|") for name, value in ask.arguments.items()}
    _GOOD.url = ask.base
    return _bare_ampersand(_GOOD.answer(arguments).encode())


def _odd(name: str, about: str, before: str, after: str) -> Scenario:
    return scenario(f"token-with-{name}", f"tokens have {about}", lambda: _wrapped(before, after), WHOLE)


SCENARIOS: tuple[Scenario, ...] = (
    scenario("token-same-with-progress", "one token serves for the whole list", _one_for_all, WHOLE),
    scenario("token-loop", "the second page's token leads to the second page again",
        _back_to_start, WHOLE, stopped(20), notable=True),
    _odd("ampersand", "an ampersand", "a&b=c&", "&verb=Identify"),
    _odd("plus", "plus signs", "a+b+", "+"),
    _odd("percent", "percent signs, also such that look encoded", "100%25%", "%2B"),
    _odd("blanks", "blanks within", "x y ", " z"),
    _odd("letters", "letters beyond ASCII", "žluť-", "-日本"),
    _odd("query", "signs that part a URL", "?#;/=", "#"),
    _odd("quotes", "quotes and angle brackets", "<\"'>", "'\"<>"),
    _odd("length", "6,000 characters", "x" * 6000, ""),
    scenario("token-in-lines", "line feeds and blanks stand around each token",
        lambda: edited(lambda good: _TOKEN.sub(
            lambda found: found[1] + b"\n      " + found[2] + b"\n    " + found[3], good)), WHOLE),
    scenario("token-encoded-twice", "tokens come percent-encoded, and are taken back as they came",
        lambda: _rewritten(lambda token: quote(token, safe=""), lambda token: token.replace("%7C", "|")),
        WHOLE),
    scenario("token-with-bare-ampersand", "tokens have ampersands that are not escaped",
        lambda: _bare_ampersand_back, WHOLE, stopped(0), notable=True),
    scenario("token-blank-at-end", "the last page has a token of blanks",
        lambda: edited(lambda good: good.replace(b"></resumptionToken>", b">  \n </resumptionToken>")),
        WHOLE),
    scenario("token-expires", "each token is refused the first time, as if it had expired",
        lambda: first_times(1, _refused), WHOLE, notable=True),
    scenario("token-never-good", "every token is refused", lambda: _refused, WHOLE, notable=True),
    scenario("token-status-400", "a token that is not known is answered with nonsense",
        lambda: _replaced(b"nonsense"), WHOLE, notable=True),
    scenario("token-behind-list", "the token stands behind the list instead of in it",
        lambda: edited(_behind_list), WHOLE, stopped(0), notable=True),
    scenario("token-without-namespace", "the token is in no namespace",
        lambda: edited(lambda good: good.replace(b"<resumptionToken", b'<resumptionToken xmlns=""')),
        WHOLE, stopped(0), notable=True),
    scenario("token-attributes-nonsense", "cursor, completeListSize and expirationDate are nonsense",
        lambda: edited(lambda good: re.sub(
            rb'cursor="\d+" completeListSize="\d+"',
            b'cursor="-" completeListSize="many" expirationDate="tomorrow"', good)),
        WHOLE, stopped(0)),
    scenario("token-on-identify", "Identify carries a token",
        lambda: to_verb("Identify", edited(lambda good: good.replace(
            b"</Identify>", b"<resumptionToken>x</resumptionToken></Identify>"))), WHOLE),
)  # fmt: skip
