"""Warnings of an import: what is taken, but is probably wrong."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from oai.datestamps import utc_now
from oai.errors import Phrase
from provider.holdings.urlkeys import WwwRule
from provider.titles.cells import saved_as_numbers, with_plain_exponent
from provider.titles.entries import ISSN, CollectionEntry, Seed, TitleEntry
from provider.titles.entry_errors import SHOWN
from provider.titles.licences import licence_of
from provider.titles.models import SeedKind
from provider.titles.ranges import MOST_KEY, RangeRules, ranges_of
from provider.titles.sets import collection_spec

_ISSN_WEIGHTS: Final = range(8, 0, -1)
_LANGUAGE_LETTERS: Final = 3
_LONGEST_URL: Final = 200
_MOST_NAMED: Final = 20
"""URLs of a collection that warnings name."""


def title_warnings(entry: TitleEntry, rules: RangeRules, www: WwwRule) -> Iterator[Phrase]:
    """Yield warnings about a title."""
    for warning in (*_value_warnings(entry), *_seed_warnings(entry.seeds, rules, www)):
        yield of_title(entry.key, warning)


def _value_warnings(entry: TitleEntry) -> Iterator[Phrase]:
    if entry.licence and licence_of(entry.licence) is None:
        licence = repr(entry.licence[:SHOWN])
        yield Phrase("unknown licence %(licence)s; the title gets no licence", licence=licence)
    if entry.issn and not _is_issn(entry.issn):
        yield Phrase("the ISSN %(issn)s is not valid; it is published as it is", issn=repr(entry.issn))
    for language in entry.languages:
        if not _is_language(language):
            yield Phrase(
                "the language %(language)s is not a code of ISO 639-2, such as 'cze'; it is published as it "
                "is",
                language=repr(language[:SHOWN]),
            )
    if entry.public and entry.contract_to and entry.contract_to < utc_now().date():
        yield Phrase(
            "its contract ended on %(day)s; it stays public, with its licence and access",
            day=entry.contract_to.isoformat(),
        )


def change_warnings(key: str, changes: Mapping[str, tuple[Any, Any]]) -> Iterator[Phrase]:
    """Yield warnings about texts of a title that a spreadsheet program has probably changed."""
    for name, values in changes.items():
        one_each = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in values]
        if not all(isinstance(value, str) for value in one_each):
            continue
        old, new = one_each
        if with_plain_exponent(new) in saved_as_numbers([old]):
            words = Phrase(
                "%(column)s was %(old)s and becomes %(new)s; a spreadsheet program may have read it as a "
                "number",
                column=name,
                old=repr(old[:SHOWN]),
                new=repr(new[:SHOWN]),
            )
            yield of_title(key, words)


def _is_issn(text: str) -> bool:
    """Return whether a text has the form and the check digit of an ISSN."""
    found = ISSN.fullmatch(text)
    if found is None:
        return False
    digits = [10 if sign == "X" else int(sign) for sign in found[1] + found[2]]
    return sum(weight * digit for weight, digit in zip(_ISSN_WEIGHTS, digits, strict=True)) % 11 == 0


def _is_language(text: str) -> bool:
    return len(text) == _LANGUAGE_LETTERS and text.isascii() and text.isalpha() and text.islower()


def _seed_warnings(seeds: Sequence[Seed], rules: RangeRules, www: WwwRule) -> Iterator[Phrase]:
    """Yield warnings about seeds that mean no captures, or that a carve-out of the same title covers."""
    found = [(seed, ranges_of(seed.url, rules, www)) for seed in seeds]
    carved = {one: seed.url for seed, ranges in found if seed.kind == SeedKind.CARVE_OUT for one in ranges}
    for seed, ranges in found:
        url = repr(seed.url[:_LONGEST_URL])
        if not ranges and seed.kind == SeedKind.CARVE_OUT:
            yield Phrase("the carve-out %(wrong)s", wrong=_no_ranges(url))
        elif not ranges:
            yield Phrase("the seed %(wrong)s", wrong=_no_ranges(url))
        # Within a wider carve-out, the seed is the narrowest and keeps its captures.
        elif seed.kind == SeedKind.INCLUDE and ranges[0] in carved:
            yield Phrase(
                "the carve-out %(carve_out)s means the same URLs as the seed %(seed)s, whose captures "
                "therefore do not belong to the title; name a directory or path below the seed",
                carve_out=repr(carved[ranges[0]][:_LONGEST_URL]),
                seed=url,
            )


def _no_ranges(url: str) -> Phrase:
    return Phrase(
        "%(url)s is not an http, https or ftp URL with a host and at most %(most)s characters, or has blanks "
        "or a wildcard; no captures match it",
        url=url,
        most=f"{MOST_KEY:,}",
    )


def collection_warnings(
    titles: Iterable[TitleEntry],
    found: Sequence[CollectionEntry],
    taken: Collection[str],
    rules: RangeRules,
    www: WwwRule,
) -> Iterator[Phrase]:
    """Yield warnings about the captures of collections; `taken` are set specs of the staff's collections."""
    names = {name for title in titles for name in title.collections}
    for name in sorted(names | {one.collection for one in found}):
        if collection_spec(name) in taken:
            yield of_collection(
                name,
                Phrase(
                    "the staff have a collection %(set)s of documents; its captures are not published as a "
                    "set until that collection is moved or removed",
                    set=collection_spec(name),
                ),
            )
    for one in found:
        wrong = [url for url in one.seeds or () if not ranges_of(url, rules, www)]
        for url in wrong[:_MOST_NAMED]:
            yield of_collection(one.collection, _no_ranges(repr(url[:_LONGEST_URL])))
        if wrong[_MOST_NAMED:]:
            more = f"{len(wrong) - _MOST_NAMED:,}"
            yield of_collection(one.collection, Phrase("%(count)s more such URLs", count=more))


def of_title(key: str, warning: Phrase) -> Phrase:
    """Return a warning with the key of the title that it is about."""
    return _at(Phrase("key %(key)s", key=key), warning)


def of_collection(name: str, warning: Phrase) -> Phrase:
    """Return a warning with the collection that it is about."""
    return _at(Phrase("collection %(name)s", name=repr(name)), warning)


def _at(place: Phrase, warning: Phrase) -> Phrase:
    return Phrase("%(place)s: %(warning)s", place=place, warning=warning)
