"""REST API: titles."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any, Final

from pydantic import Field

from oai.rights import Right
from provider.models import UNLISTED
from provider.titles.catalogue import identifier
from provider.titles.listing import (
    MOST_SEEDS,
    ShownSeed,
    Standing,
    list_titles,
    standing_of,
    title_details,
)
from provider.titles.models import Title
from provider.titles.ranges import range_rules
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import Out, Page, Paged
from web.site.i18n import _

OPERATIONS: Final = Operations("archive")

_LONGEST: Final = 200
"""Fields that are not columns of the title, or not as they are."""


class TitleLine(Out):
    """A title in a list."""

    title_id: int
    key: str = Field(description="The last part of the OAI identifier: 32 hexadecimal digits.")
    identifier: str
    source: str
    source_key: str
    name: str
    publisher: str | None
    standing: Standing = Field(description="Whether it is listed, or the first reason why it is not.")
    state: str | None = Field(description="Its state in the source.")
    public: bool
    access: str | None = Field(description="open, reading room or withheld; null: the source does not say.")
    gone: bool = Field(description="Whether its source no longer contains it.")
    captures: int
    first_capture: datetime | None
    last_capture: datetime | None
    datestamp: datetime | None = Field(description="Null if it was never listed.")
    imported: datetime = Field(description="When an import last changed it.")


class TitleSubjectOut(Out):
    """A subject group of a title."""

    name: str
    name_en: str | None = None
    number: int | None = Field(None, description="The group's number in the Conspectus.")
    notation: str | None = Field(None, description="Notation in the Universal Decimal Classification.")
    part: str | None = Field(None, description="Name of the part of the group.")
    part_en: str | None = None


class SeedRangeOut(Out):
    """A range of URL keys that a seed means."""

    keys: str
    owner_id: int | None = Field(description="The title to which it belongs; null: to none.")
    owner: str | None
    is_carve_out: bool


class TitleSeedOut(Out):
    """A URL from which a title is harvested."""

    url: str
    kind: str = Field(description="include or carve-out.")
    main: bool
    harvested_from: date | None
    harvested_to: date | None
    ranges: list[SeedRangeOut] = Field(description="Empty if the URL has no host.")


class TitleSetOut(Out):
    """A set of titles."""

    set_spec: str
    name: str


class TitleOut(TitleLine):
    """Everything about a title."""

    alternative_names: Sequence[str]
    annotation: str | None
    languages: Sequence[str]
    issn: str | None
    catalogue_number: str | None
    classification: Sequence[str]
    subjects: Sequence[TitleSubjectOut]
    keywords: Sequence[str]
    collections: Sequence[str]
    licence: str | None = Field(description="Such as cc-by-4.0.")
    contract_from: date | None
    contract_to: date | None
    captures_by_year: Mapping[str, int]
    seeds: list[TitleSeedOut] = Field(description=f"The first {MOST_SEEDS}, in the order of the source.")
    seed_count: int
    sets: list[TitleSetOut]


class TitleQuery(Paged):
    """Filters for titles."""

    words: str = Field(
        "",
        max_length=_LONGEST,
        description="Words in the names, publisher, key or seeds; case and accents do not matter.",
    )
    source: str = Field("", max_length=_LONGEST, description="Only those of this source.")
    standing: Standing | None = Field(None, description="Only those that are listed, or not for this reason.")


@OPERATIONS.add("GET /archive/titles", "listTitles", Right.ARCHIVE, query=TitleQuery)
async def _list(call: Call) -> Page[TitleLine]:
    """List titles, also those that are not listed for harvesters, in the order of their import."""
    asked = call.asked(TitleQuery)
    namespace = call.settings.provider.namespace
    return await list_page(
        call,
        partial(list_titles, words=asked.words, source=asked.source, standing=asked.standing),
        lambda title: TitleLine.from_row(title, **_made_of(title, namespace)),
        after=lambda title: title.title_id,
    )


@OPERATIONS.add("GET /archive/titles/{title}", "getTitle", Right.ARCHIVE)
async def _show(call: Call) -> TitleOut:
    """Show a title with its seeds, sets and captures by year."""
    key, provider = uuid.UUID(hex=call.place["title"]), call.settings.provider
    found = await call.database.run(title_details, key, range_rules(provider))
    if found is None:
        raise ApiError(404, _("Title %(number)s does not exist.") % {"number": key.hex})
    return TitleOut.from_row(
        found.title,
        **_made_of(found.title, provider.namespace),
        seeds=[_seed_out(one) for one in found.seeds],
        seed_count=found.seed_count,
        sets=found.sets,
    )


def _made_of(title: Title, namespace: str) -> dict[str, Any]:
    return {
        "key": title.key.hex,
        "identifier": identifier(namespace, title.key),
        "standing": standing_of(title),
        "datestamp": None if title.datestamp == UNLISTED else title.datestamp,
    }


def _seed_out(shown: ShownSeed) -> TitleSeedOut:
    return TitleSeedOut.from_row(shown.seed, ranges=shown.ranges)
