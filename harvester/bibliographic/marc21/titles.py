"""Fields of titles: 245, and 130, 210, 222, 240, 242, 243, 246, 247, 730, 740 beside it."""

from typing import Final

from harvester.bibliographic.marc21.draft import Draft
from harvester.bibliographic.marc21.names import authority_ids
from harvester.bibliographic.marc21.reading import OpenField
from harvester.bibliographic.punctuation import clean, tidy
from harvester.bibliographic.record import TitleVariant

_BEGIN, _END = "\x98", "\x9c"
"""Non-sorting characters begin and end (ISO 6630, in Unicode's control area)."""
_BEFORE_A_WORD: Final = " '\u2019-([\"\u201e\u201c\u00ab\u02bb`"
_VARIANTS: Final = {
    "130": "uniform", "210": "abbreviated", "222": "key", "240": "uniform", "242": "translated",
    "243": "collective", "246": "varying", "247": "former", "730": "related", "740": "analytical",
}  # fmt: skip
_ARTICLES: Final = {"130": 0, "222": 1, "240": 1, "242": 1, "243": 1, "730": 0, "740": 0}
"""Which indicator of a field counts the characters of leading articles."""
_LABELS: Final = {
    "0": "portion of title", "1": "parallel title", "2": "distinctive title", "3": "other title",
    "4": "cover title", "5": "added title page title", "6": "caption title", "7": "running title",
    "8": "spine title",
}  # fmt: skip


def take_title(found: OpenField, draft: Draft) -> None:
    """Take field 245; another one is kept as a variant, and told."""
    if found.linked:
        _take_linked(found, draft)
        return
    if draft.title:
        draft.broken("245", found.rest(), "a second title")
        return
    raw = found.raw("a")
    sorting = _sorting(found, draft, raw, found.indicators[1])
    parts = _parts(found, "anp")
    draft.title = ". ".join(value for _, value in parts)
    rest = [value for code, value in parts if code != "a"]
    draft.sorting = " ".join([sorting, *rest]) if raw else ""
    draft.subtitle = " : ".join(clean(value) for value in found.take("b"))
    draft.statement = " ; ".join(clean(value, stop=True) for value in found.take("c"))
    _drop_link(found)


def take_variant(found: OpenField, draft: Draft) -> None:
    """Take another title."""
    if found.tag in _ARTICLES and not found.linked:
        _sorting(found, draft, found.raw("a"), found.indicators[_ARTICLES[found.tag]])
    said = clean(found.first("i")).rstrip(":")
    label = said or _LABELS.get(found.indicators[1], "") * (found.tag == "246")
    text = _joined(found, "abfgklmnoprs")
    draft.keep(found.written, " ".join(f"$0 {one}" for one in authority_ids(found)))
    if not text:
        rest = " ".join(filter(None, (f"$i {said}" if said else "", found.rest())))
        draft.broken(found.written, rest, "a title without subfield a")
    else:
        kind = "linked" if found.linked else _VARIANTS[found.tag]
        draft.variants.append(TitleVariant(kind=kind, text=text, label=label))
    _drop_link(found)


def _take_linked(found: OpenField, draft: Draft) -> None:
    text = _joined(found, "abnpc")
    if text:
        draft.variants.append(TitleVariant(kind="linked", text=text))
    _drop_link(found)


def _drop_link(found: OpenField) -> None:
    """The link between two scripts of a title is told by the variant's kind."""
    if found.link:
        found.take("6")


def _parts(found: OpenField, codes: str) -> list[tuple[str, str]]:
    cleaned = [(code, clean(value, stop=code != "a")) for code, value in found.pairs(codes)]
    return [
        (code, value.rstrip(".") if code == "a" and len(cleaned) > 1 else value) for code, value in cleaned
    ]


def _joined(found: OpenField, codes: str) -> str:
    """Title, remainder and parts as a catalogue writes them."""
    text = ""
    for code, value in found.pairs(codes):
        sign = {"b": " : ", "c": " / "}.get(code, ". ")
        begun = text.rstrip(".") if sign == ". " else text
        text = f"{begun}{sign if text else ''}{clean(value)}"
    return text


def _sorting(found: OpenField, draft: Draft, raw: str, indicator: str) -> str:
    """The title without its leading article, which the indicator counts or control characters enclose."""
    if _BEGIN in raw and _END in raw:
        before, _, after = raw.partition(_BEGIN)
        return tidy(before + after.partition(_END)[2])
    text = tidy(raw)
    if not indicator.isdigit() or not indicator.isascii():
        fault = f"the indicator for nonfiling characters is {indicator!r}, not a digit"
        draft.broken(found.written, text, fault)
        return text
    count = int(indicator)
    if count == 0:
        return text
    if count >= len(text) or text[count - 1] not in _BEFORE_A_WORD:
        draft.broken(found.written, text, f"the first {count} characters are not a leading article")
        return text
    return text[count:]
