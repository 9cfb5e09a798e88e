"""Organisations over the API, and which repositories are theirs."""

from datetime import datetime
from typing import Any, Final

from pydantic import Field

from oai.owners import Organisation
from oai.rights import Right
from web import organisations
from web.api.faults import not_found
from web.api.operations import Call, Operation
from web.api.paging import after, page_of
from web.api.shapes import In, Out, Page, Paged
from web.subject import about

_TAG: Final = "people"


class OrganisationOut(Out):
    """An organisation."""

    organisation_id: int
    short_name: str
    name: str
    created: datetime
    users: int
    repositories: int


class NewOrganisation(In):
    """Names as they are to be."""

    short_name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=50)
    name: str = Field("", max_length=200)


class OwnerBody(In):
    """Whose the repository is to be."""

    organisation_id: int | None = Field(
        ge=1, le=999_999_999, description="Null: belongs to the administrators."
    )


async def _organisations(call: Call) -> Page[OrganisationOut]:
    limit = call.asked(Paged).limit + 1
    rows = await call.database.run(
        organisations.list_organisations, limit=limit, after=after(call, str) or ""
    )
    return page_of(call, rows, OrganisationOut.model_validate, lambda row: row.short_name)


async def _add_organisation(call: Call) -> OrganisationOut:
    asked = call.sent(NewOrganisation)
    row = await call.database.run(
        organisations.add_organisation, short_name=asked.short_name, name=asked.name
    )
    about(call.request, "organisation", row.organisation_id, row.name)
    return await _organisation_out(call, row.organisation_id)


async def _change_organisation(call: Call) -> OrganisationOut:
    number = await _organisation(call)
    asked = call.sent(NewOrganisation)
    await call.database.run(
        organisations.change_organisation, number, short_name=asked.short_name, name=asked.name
    )
    return await _organisation_out(call, number)


async def _remove_organisation(call: Call) -> None:
    await call.database.run(organisations.remove_organisation, await _organisation(call))


async def _own(call: Call) -> None:
    repository_id, owner = call.place["repository"], call.sent(OwnerBody).organisation_id
    await call.database.run(organisations.give_repository, repository_id, owner)
    about(call.request, "repository", repository_id, organisation_id=owner)


async def _organisation_out(call: Call, number: int) -> OrganisationOut:
    view = await call.database.run(organisations.find_organisation_view, number)
    if view is None:
        raise not_found("organisation", number)
    return OrganisationOut.model_validate(view)


async def _organisation(call: Call) -> int:
    number: int = call.place["organisation"]
    row = await call.database.run(lambda session: session.get(Organisation, number))
    if row is None:
        raise not_found("organisation", number)
    about(call.request, "organisation", number, row.name)
    return number


def _op(name: str, method: str, path: str, summary: str, work: Any, **more: Any) -> Operation:  # noqa: ANN401 as declared
    declared = {"right": Right.ADMINISTER, **more}
    return Operation(name=name, method=method, path=path, tag=_TAG, summary=summary, work=work, **declared)


OPERATIONS: Final = (
    _op(
        "listOrganisations",
        "GET",
        "/organisations",
        "List organisations by short name.",
        _organisations,
        query=Paged,
        answer=Page[OrganisationOut],
    ),
    _op(
        "addOrganisation",
        "POST",
        "/organisations",
        "Add an organisation.",
        _add_organisation,
        body=NewOrganisation,
        answer=OrganisationOut,
        status=201,
    ),
    _op(
        "changeOrganisation",
        "PUT",
        "/organisations/{organisation}",
        "Rename an organisation.",
        _change_organisation,
        body=NewOrganisation,
        answer=OrganisationOut,
    ),
    _op(
        "removeOrganisation",
        "DELETE",
        "/organisations/{organisation}",
        "Remove an organisation; its repositories then belong to the administrators.",
        _remove_organisation,
        status=204,
    ),
    _op(
        "setOwner",
        "PUT",
        "/repositories/{repository}/owner",
        "Assign a repository to an organisation.",
        _own,
        body=OwnerBody,
        status=204,
    ),
)
