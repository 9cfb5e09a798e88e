"""The second level of validation: which fields, indicators and subfields MARC 21 defines, and which repeat.

Source: MARC 21 Format for Bibliographic Data, concise format. What MARC 21 leaves to local use (fields
9XX, X9X and XX9 unless it defines them, indicator 9, subfield 9) is not checked, nor are holdings fields in a
bibliographic record (841 to 845, 853 to 855, 863 to 868, 876 to 878). Subfields 6 and 8 are accepted in every
data field.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harvester.bibliographic.marc21.structure import Finding, Level, WrittenField, WrittenRecord

_LOCAL: Final = re.compile(r"9..|.9.|..9|...*[A-Za-z].*")
_EMBEDDED_HOLDINGS: Final = re.compile(r"84[1-5]|85[345]|86[3-8]|87[678]")
_OTHER_SCRIPT: Final = "880"
_LINKAGE: Final = re.compile(r"(\d{3})-\d{2}")
_LOCAL_INDICATOR: Final = "9"
_EVERYWHERE_ONCE: Final = frozenset("6")
_EVERYWHERE_REPEATED: Final = frozenset("89")
_REQUIRED: Final = ("001", "008", "245")
_MAIN_ENTRIES: Final = ("100", "110", "111", "130")
_OBSOLETE: Final[Mapping[str, str]] = {
    "211": "246", "212": "246", "214": "246", "265": "037", "301": "300", "305": "300",
    "400": "490 and 800", "410": "490 and 810", "411": "490 and 811", "440": "490 and 830", "652": "651",
    "705": "700", "715": "710", "755": "655", "840": "830", "851": "852",
}  # fmt: skip
"""Fields that MARC 21 defined once, with those that replace them."""
_TABLE: Final = """
001 N - - - -
003 N - - - -
005 N - - - -
006 R - - - -
007 R - - - -
008 N - - - -
010 N # # a bz
013 R # # abc def
015 R # # 2 aqz
016 R #7 # a2 z
017 R # #8 bdi2 az
018 N # # a -
020 R # # ac qz
022 R #01 # al02 myz1
023 R 01 # a02 yz1
024 R 0-478 #01 acd2 qz
025 R # # - a
026 R # # abce2 d5
027 R # # a qz
028 R 0-6 0-3 ab q
030 R # # a z
031 R # # abcegmnopr2 dqstuyz
032 R # # ab -
033 R #012 #012 3 abcp012
034 R 013 #01 adefgjkmnprxyz23 bchst01
035 R # # a z
036 N # # ab -
037 R #23 # ab3 cfgn5
038 N # # a -
040 N # # abc de
041 R #01 #7 23 abdefghijkmnpqrt7
042 N # # - a
043 R # # - abc012
044 N # # - abc2
045 N #012 # - abc
046 R #123 # abcdejklmnop23 xz
047 R # #7 2 a
048 R # #7 2 ab
050 R #01 04 b3 a01
051 R # # abc -
052 R #17 # a2 bd01
055 R #01 0-9 ab2 01
060 R #01 04 b a01
061 R # # bc a
066 N # # ab c
070 R 01 # b a01
071 R # # b ac
072 R # 07 a2 x
074 R # # a z
080 R #01 # ab2 x01
082 R 017 #04 bmq2 a7
083 R 017 # mq2 acyz7
084 R # # bq2 a017
085 R # # - abcfrstuvwyz01
086 R #01 # a2 z01
088 R # # a z
100 N 013 # abdflqtu2 cegjknp0147
110 N 012 # afltu2 bcdegknp0147
111 N 012 # aflqtu2 cdegjknp0147
130 N 0-9 # afhlort2 dgkmnps017
210 R 01 #0 ab 27
222 R # 0-9 ab -
240 N 01 0-9 afhlor2 dgkmnps017
242 R 01 0-9 abchy np
243 N 01 0-9 afhlor dgkmnps
245 N 01 0-9 abcfghs knp7
246 R 0-3 #0-8 abfhi5 gnp7
247 R 01 01 abfhx gnp7
250 R # # ab3 7
251 R # # 23 a01
254 N # # a -
255 R # # abcdefg 7
256 N # # a 7
257 R # # 2 a01
258 R # # ab -
260 R #23 # 3 abcefg
263 N # # a -
264 R #23 0-4 3 abc7
270 R #12 #07 bcdefghi ajklmnpqrz4
300 R # # be3 acfg7
306 N # # - a
307 R #8 # ab -
310 R # # ab02 1
321 R # # ab02 1
334 R # # ab23 01
335 R # # ab23 017
336 R # # 23 ab017
337 R # # 23 ab01
338 R # # 23 ab01
340 R # # 23 abcdefghijklmnopq01
341 R #01 # a23 bcde
342 R 01 0-8 abcdghijklmnopqrstuvw2 ef
343 R # # abcdefghi -
344 R # # 23 abcdefghij01
345 R # # 23 abcd01
346 R # # 23 ab01
347 R # # 23 abcdef01
348 R # # 23 abcd017
351 R # # c3 ab
352 R # # adefgiq bc
353 R # # 23 ab01
355 R 0-58 # adefgh bcj
357 N # # a bcg
361 R #01 # aklsy35 fouxz017
362 R 01 # az -
363 R #01 #01 abcdefghijklmuv xz
365 R # # abcdefghijkm2 -
366 R # # abcdefgjkm2 -
370 R # # st23 cfgiuv0147
377 R # #7 23 al017
380 R # # 23 a017
381 R # # 23 auv017
382 R #0-3 #01 rst23 abdenpv017
383 R #01 # de23 abc7
384 R #012 # a3 017
385 R # # mn23 ab017
386 R # # mn23 abi0147
387 R # # 23 abcdefghijklm017
388 R #12 # 23 a017
490 R 01 # l3 avxyz7
500 R # # a35 7
501 R # # a5 7
502 R # # abcd go7
504 R # # ab -
505 R 0128 #0 a grtu7
506 R #01 # aq235 bcdefgu
507 N # # ab -
508 R # # a 7
510 R 0-4 # abcx3 u7
511 R 01 # a -
513 R # # ab -
514 N # # adefim bcghjkuz
515 R # # a 7
516 R #8 # a -
518 R # # a3 dop0127
520 R #0-48 # abc23 u7
521 R #0-48 # b3 a
522 R #8 # a -
524 R #8 # a23 -
525 R # # a -
526 R 08 # abcdi5 xz
530 R # # abcd3 u
532 R 0128 # a3 -
533 R # # ade357 bcfmny
534 R # # abcelmpt3 fknoxz
535 R 12 # ag3 bcd
536 R # # a bcdefgh
538 R # # ai3 u5
540 R # # abcdq235 fgu
541 R #01 # abcdefh35 no
542 R #01 # abcgijlmoqrs3 defhknpu
544 R #01 # 3 abcden
545 R #01 # ab u
546 R # # a3 b7
547 R # # a -
550 R # # a 7
552 R # # abcdghijklmn efopuz
555 R #08 # acd3 bu7
556 R #8 # a z
561 R #01 # a35 u
562 R # # 35 abcde
563 R # # a35 u
565 R #08 # a3 bcde
567 R #8 # a2 b01
580 R # # a -
581 R #8 # a3 z
583 R #01 # a235 bcdefhijklnouxz7
584 R # # 35 ab
585 R # # a35 -
586 R #8 # a3 -
588 R #01 # a5 -
600 R 013 0-7 abdfhloqrtu23 cegjkmnpsvxyz0147
610 R 012 0-7 afhlortu23 bcdegkmnpsvxyz0147
611 R 012 0-7 afhlqtu23 cdegjknpsvxyz0147
630 R 0-9 0-7 afhlort23 degkmnpsvxyz0147
647 R # 0-7 ad23 cgvxyz01
648 R # 0-7 a23 vxyz017
650 R #012 0-7 abcd23 egvxyz0147
651 R # 0-7 a23 egvxyz0147
653 R #012 #0-6 5 a017
654 R #012 # 23 abcevyz014
655 R #0 0-7 a235 bcvxyz017
656 R # 7 ak23 vxyz01
657 R # 7 a23 vxyz01
658 R # # acd2 b01
662 R # # bd2 acefgh014
688 R # #7 a23 eg014
700 R 013 #2 abdfhloqrtux235 cegijkmnps0147
710 R 012 #2 afhlortux235 bcdegikmnps0147
711 R 012 #2 afhlqtux235 cdegijknps0147
720 R #12 # a5 e0147
730 R 0-9 #2 afhlortx235 dgikmnps014
740 R 0-9 #2 ah5 np
751 R # # a23 eg0147
752 R # # bd2 acefgh014
753 R # # abc2 01
754 R # # 2 acdxz01
758 R # # a235 i014
760 R 01 #8 abcdhmstxy7 gilnow4
762 R 01 #8 abcdhmstxy7 gilnow4
765 R 01 #8 abcdhmstuxy7 giklnorwz4
767 R 01 #8 abcdhmstuxy7 giklnorwz4
770 R 01 #8 abcdhmstuxy7 giklnorwz4
772 R 01 #08 abcdhmstuxy7 giklnorwz4
773 R 01 #8 abdhmpqstuxy357 giklnorwz4
774 R 01 #8 abcdhmstuxy57 giklnorwz4
775 R 01 #8 abcdefhmstuxy7 giklnorwz4
776 R 01 #8 abcdhmstuxy7 giklnorwz4
777 R 01 #8 abcdhmstuxy7 giklnorwz4
780 R 01 0-7 abcdhmstuxy7 giklnorwz4
785 R 01 0-8 abcdhmstuxy7 giklnorwz4
786 R 01 #8 abcdhjmpstuvxy7 giklnorwz4
787 R 01 #8 abcdhmstuxy57 giklnorwz4
788 R 01 #8 abdestx5 ilnw4
800 R 013 # abdfhloqrtuvx237 cegjkmnpswy0145
810 R 012 # afhlortuvx237 bcdegkmnpswy0145
811 R 012 # afhlqtuvx237 cdegjknpswy0145
830 R # 0-9 afhlortvx237 dgkmnpswy015
850 R # # - a
852 R #0-8 #012 ahjlnpqt23 bcdefgikmsuxz
856 R #0-47 #0-48 op237 acdefghlmnqrstuvwxyz
857 R #147 #0-48 bcdf2357 eghlmnqrstuxyz
881 R # # 3 abcdefghijklmn
882 N # # - aiw
883 R #012 # acdqux w01
884 R # # agkq u
885 R # # abcd25 wxz01
886 R 012 # ab2 -
887 R # # a2 -
"""
"""A line per field: tag; R for repeatable or N; first and second indicator (# is a blank, - a range); the
subfields that occur once; those that may be repeated. A hyphen alone stands for none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Designation:
    """What MARC 21 defines for a field."""

    repeatable: bool
    indicators: tuple[frozenset[str], frozenset[str]]
    once: frozenset[str]
    """Subfields that may not be repeated."""
    repeated: frozenset[str]
    """Subfields that may be repeated."""


def _characters(written: str) -> frozenset[str]:
    """Return the characters of a class such as `#0-4`."""
    if written == "-":
        return frozenset()
    ranged = re.sub(
        r"(\d)-(\d)", lambda found: "".join(map(str, range(int(found[1]), int(found[2]) + 1))), written
    )
    return frozenset(ranged.replace("#", " "))


def _designation(line: str) -> tuple[str, Designation]:
    tag, repeatable, first, second, once, repeated = line.split()
    return tag, Designation(
        repeatable=repeatable == "R",
        indicators=(_characters(first), _characters(second)),
        once=_characters(once) | _EVERYWHERE_ONCE,
        repeated=_characters(repeated) | _EVERYWHERE_REPEATED,
    )


DESIGNATIONS: Final[Mapping[str, Designation]] = dict(map(_designation, _TABLE.split("\n")[1:-1]))


def check_designations(record: WrittenRecord) -> Iterator[Finding]:
    """Yield the findings of the second level."""
    yield from _presence(record)
    for one in record.fields:
        yield from _check(one)


def _presence(record: WrittenRecord) -> Iterator[Finding]:
    tags = Counter(one.tag for one in record.fields)
    for tag in _REQUIRED:
        if not tags[tag]:
            yield Finding(
                level=Level.DESIGNATIONS,
                code="missing_field",
                tag=tag,
                expected=f"a field {tag} in every record",
            )
    entries = [tag for tag in _MAIN_ENTRIES if tags[tag]]
    if len(entries) > 1:
        yield Finding(
            level=Level.DESIGNATIONS,
            code="several_main_entries",
            tag=entries[1],
            found=" ".join(entries),
            expected="at most one of the fields 100, 110, 111 and 130",
        )


def _check(one: WrittenField) -> Iterator[Finding]:
    tag = one.tag
    if tag == _OTHER_SCRIPT:
        linkage = _LINKAGE.match((one.values("6") or [""])[0])
        if linkage is None:
            expected = "the linked field in subfield 6, such as 245-01"
            yield one.finding(Level.DESIGNATIONS, "missing_linkage", place="$6", expected=expected)
            return
        tag = linkage[1]
    known = DESIGNATIONS.get(tag)
    if known is None:
        if tag in _OBSOLETE:
            expected = f"field {_OBSOLETE[tag]}, which replaced this obsolete field"
            yield one.finding(Level.DESIGNATIONS, "obsolete_field", found=tag, expected=expected)
        elif not _LOCAL.fullmatch(tag) and not _EMBEDDED_HOLDINGS.fullmatch(tag):
            expected = "a field that MARC 21 defines, or a local one (9XX, X9X, XX9)"
            yield one.finding(Level.DESIGNATIONS, "undefined_field", found=tag, expected=expected)
        return
    if one.occurrence > 1 and not known.repeatable and one.tag != _OTHER_SCRIPT:
        expected = f"field {tag} once in a record"
        yield one.finding(Level.DESIGNATIONS, "repeated_field", found=tag, expected=expected)
    if one.data is None:
        yield from _indicators(one, known)
        yield from _subfields(one, known)


def _indicators(one: WrittenField, known: Designation) -> Iterator[Finding]:
    for name, given, defined in zip(("ind1", "ind2"), one.indicators, known.indicators, strict=True):
        if given not in defined and given != _LOCAL_INDICATOR:
            expected = (
                " ".join(sorted(defined)).replace(" ", "#", 1)
                if " " in defined
                else " ".join(sorted(defined))
            )
            yield one.finding(
                Level.DESIGNATIONS,
                "undefined_indicator",
                place=name,
                found=given.replace(" ", "#"),
                expected=f"one of {expected}" if len(defined) > 1 else expected,
            )


def _subfields(one: WrittenField, known: Designation) -> Iterator[Finding]:
    for code, count in Counter(part.code for part in one.subfields).items():
        if code in known.repeated:
            continue
        if code not in known.once:
            defined = "".join(sorted((known.once | known.repeated) - _EVERYWHERE_ONCE - _EVERYWHERE_REPEATED))
            expected = f"one of the subfields {defined}"
            value = one.values(code)[0]
            yield one.finding(
                Level.DESIGNATIONS, "undefined_subfield", place=f"${code}", found=value, expected=expected
            )
        elif count > 1:
            expected = f"subfield {code} once in a field"
            found = f"{count} times"
            yield one.finding(
                Level.DESIGNATIONS, "repeated_subfield", place=f"${code}", found=found, expected=expected
            )
