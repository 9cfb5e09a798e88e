"""Forms of repositories: addresses, checked against the protocol to be used, and choices."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp import web
from pydantic import Field, ValidationInfo, field_validator
from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from harvester.listing import name_repositories
from harvester.locks import find_lock
from harvester.models import MetadataFormat, OaiSet, PrefixMapping, Repository, RepositoryLock
from harvester.protocols import protocol_of
from harvester.recognition import check_base_url, lacks_scheme
from harvester.repositories import unused_folder
from oai.errors import RemoteError, SettingsError, TryLaterError, UsageError
from oai.folding import folded, normalised
from web.auth.access import visible_repositories, who_asks
from web.auth.organisations import own_folder
from web.auth.sessions import SignedIn
from web.site.forms import FormModel, relative_folder
from web.site.i18n import _, error_text, language
from web.site.keys import SETTINGS, database_of

UNASKED: Final = (RemoteError, TryLaterError, SettingsError)
"""Errors of a request to a repository that does not answer or cannot be reached from here."""
SETS_SHOWN: Final = 500
_DETAILS: Final[tuple[Callable[[int, str], str], ...]] = (
    lambda _number, address: urlsplit(address).netloc,
    lambda _number, address: address.partition("://")[2],
    lambda number, address: f"{address.partition('://')[2]}, {number}",
)
"""What distinguishes repositories of one name; the first that does is shown."""
_CZECH: Final = {"č": "c", "ch": "h", "ř": "r", "š": "s", "ž": "z"}
_LETTERS: Final[Mapping[str, Mapping[str, str]]] = {"cs": _CZECH, "sk": {**_CZECH, "ä": "a", "ô": "o"}}
"""Letters of an alphabet by language, and the letter that each follows; other accents do not count."""


def usable_address(value: str, protocol: str | None = None) -> str:
    """Return the base URL. Raises ValueError with the expected form of an address."""
    try:
        return check_base_url(value, protocol_of(value, protocol))
    except UsageError as error:
        if protocol is not None:
            raise ValueError(error_text(error)) from None
        raise ValueError(
            _(
                "Enter the complete address, such as https://library.example/oai, or "
                "z3950://library.example:210/books for a Z39.50 server."
            )
        ) from None


def typed_address(text: str, protocol: str | None) -> str:
    """Return the address, which may lack its scheme. Raises ValueError with the expected form."""
    if not text or not lacks_scheme(text):
        return usable_address(text, protocol)
    usable_address(f"https://{text}", protocol)
    return text


def policies() -> list[tuple[str, str]]:
    """Return what may become of a deleted record's file, with labels."""
    return [
        ("remove", _("Delete the file; the record stays in the list as deleted")),
        ("mark", _("Leave the file in its place and mark it as deleted")),
        ("move", _("Move the file to a separate folder and mark it as deleted")),
    ]


class PlacedForm(FormModel):
    """Base URL of a repository and the directory of its files."""

    base_url: str = Field(min_length=1, max_length=2000)
    base_dir: str = Field(min_length=1)

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        return usable_address(value)

    @field_validator("base_dir")
    @classmethod
    def _lies_in_the_store(cls, value: str, info: ValidationInfo) -> str:
        return relative_folder(value, (info.context or {})["store"])


async def store_context(request: web.Request) -> dict[str, Any]:
    """Return the context in which folders are validated: below which folder the user adds repositories."""
    return {"store": request.config_dict[SETTINGS].store / own_folder(who_asks(request))}


def suggested_folder(session: Session, who: SignedIn, base_url: str) -> str:
    """Return a folder that no repository has, relative to the user's, named after the host."""
    host = (urlsplit(base_url).hostname or "repository").removeprefix("www.")
    return unused_folder(session, host, own_folder(who))


async def repository_choices(request: web.Request) -> list[tuple[int, str]]:
    """Return the repositories that the user may see, for a choice, told apart, in alphabetical order."""
    among = visible_repositories(who_asks(request))
    choices = told_apart(await database_of(request).run(name_repositories, among=among))
    return sorted(choices, key=lambda choice: _in_alphabet(choice[1]))


def _in_alphabet(name: str) -> str:
    """Return a sort key for the reader's alphabet; punctuation before the name does not count."""
    name = re.sub(r"^\W+", "", normalised("NFC", name).lower()).translate(str.maketrans("łđø", "ldo"))
    for letter, before in _LETTERS.get(language.get(), {}).items():
        name = name.replace(letter, f"{before}\uffff")
    return folded(name)


def told_apart(rows: Sequence[Row[int, str, str]]) -> list[tuple[int, str]]:
    """Return number and name of each repository; a name that several have, with host, address or number."""
    named: dict[str, list[tuple[int, str]]] = {}
    for number, name, address in rows:
        named.setdefault(name, []).append((number, address))
    labels: dict[int, str] = {}
    for name, same in named.items():
        for detail in _DETAILS if len(same) > 1 else ():
            details = {number: detail(number, address) for number, address in same}
            if len(set(details.values())) == len(same):
                break
        labels |= {number: f"{name} ({details[number]})" if len(same) > 1 else name for number, _url in same}
    return [(number, labels[number]) for number, *_others in rows]


@dataclass(frozen=True, kw_only=True)
class Details:
    """A repository with its formats and its first sets."""

    repository: Repository
    formats: list[MetadataFormat]
    set_count: int
    sets: list[OaiSet]
    lock: RepositoryLock | None
    """The lock that keeps harvests off it."""

    @property
    def name(self) -> str:
        """Return the repository's name, or its address if it has no name."""
        return self.repository.display_name


def details(session: Session, repository_id: int) -> Details | None:
    """Return the repository with that id, or None."""
    repository = session.get(Repository, repository_id)
    if repository is None:
        return None
    formats = (
        select(MetadataFormat)
        .join(PrefixMapping, PrefixMapping.prefix_id == MetadataFormat.prefix_id)
        .where(PrefixMapping.repository_id == repository_id)
        .order_by(MetadataFormat.metadata_prefix)
    )
    sets = select(OaiSet).where(OaiSet.repository_id == repository_id)
    count = select(func.count()).select_from(OaiSet).where(OaiSet.repository_id == repository_id)
    return Details(
        repository=repository,
        formats=list(session.scalars(formats)),
        set_count=session.scalars(count).one(),
        sets=list(session.scalars(sets.order_by(OaiSet.set_spec).limit(SETS_SHOWN))),
        lock=find_lock(session, repository_id),
    )
