"""Administration of users: invitations, roles, organisations, disabling."""

from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from pydantic import Field
from sqlalchemy.orm import Session

from oai.audit import last_change
from oai.errors import UsageError
from oai.settings import Settings
from web.auth import second_factor
from web.auth.access import about, administrators_only, needs_fresh_sign_in
from web.auth.organisations import name_organisations
from web.auth.sign_in import make_link
from web.auth.users import (
    STATES,
    LastAdministratorError,
    UserView,
    add_user,
    change_role,
    disable_user,
    enable_user,
    find_user_view,
    find_users,
)
from web.models import LinkKind, Role
from web.site.export import KINDS, columns_of, export_list
from web.site.faults import RemediableConflict, conflicts
from web.site.forms import (
    Form,
    FormModel,
    StaleFormError,
    empty_is_none,
    filled_from,
    keeping_other_changes,
    read_form,
)
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, page_of, text_in
from web.site.params import NUMBER, choice_in, number_of
from web.site.render import confirmation, render

_OTHERS: Final = "/admin/users?state=active"
"""Where another administrator is chosen."""
_COLUMNS: Final = columns_of(
    "user_id", "name", "role", "organisation", "state", "created", "last_sign_in", "disabled", "has_password",
)  # fmt: skip


class RoleForm(FormModel):
    """Role and organisation of a user."""

    role: Role
    organisation: int | None = Field(None, ge=1, le=999_999_999)

    _empty_is_none = empty_is_none("organisation")


class InvitationForm(RoleForm):
    """Name, role and organisation of a new user."""

    name: str = Field(min_length=1, max_length=100)


@administrators_only
async def listing(request: web.Request) -> web.Response:
    """List the users that match the filter, in pages."""
    given, after = _given(request), text_in(request, "after")
    found = await database_of(request).run(find_users, limit=PAGE + 1, after=after, **given)
    return render(
        request,
        "admin_users.html",
        page=page_of(found, lambda user: user.name, behind=after),
        given=given,
        query=urlencode(given),
        roles=[role.value for role in Role],
        states=STATES,
    )


@administrators_only
async def as_file(request: web.Request) -> web.StreamResponse:
    """Export the users that match the filter."""
    find = partial(find_users, **_given(request))
    return await export_list(request, "users", _COLUMNS, find, after=lambda user: user.name)


@administrators_only
@needs_fresh_sign_in
async def new(request: web.Request) -> web.Response:
    """Show the invitation form."""
    return await _page(request, None, Form(values={"role": Role.VIEWER.value}))


@administrators_only
@needs_fresh_sign_in
async def invite_new(request: web.Request) -> web.Response:
    """Add the user and show the invitation link; the link is shown only once."""
    asked, form = read_form(InvitationForm, await request.post())
    if asked is None:
        return await _page(request, None, form)
    try:
        user_id, link = await database_of(request).run(
            _add_and_invite,
            request.config_dict[SETTINGS],
            base_url(request),
            asked.name,
            asked.role,
            asked.organisation,
        )
    except UsageError as error:
        field = "name" if asked.organisation or asked.role is not Role.PARTNER else "organisation"
        return await _page(request, None, form.with_error(field, error_text(error)))
    about(request, "user", user_id, asked.name)
    return await _page(request, await user_of(request, user_id), None, link=link, invitation=True)


@administrators_only
async def show(request: web.Request) -> web.Response:
    """Show one user."""
    return await _page(request, await user_of(request), None)


@administrators_only
@needs_fresh_sign_in
async def change(request: web.Request) -> web.Response:
    """Change the user's role or organisation."""
    user = await user_of(request)
    asked, form = read_form(RoleForm, await request.post())
    if asked is None:
        return await _page(request, user, form)

    def work(session: Session) -> None:
        # Locked by `change_role`, which locks several users in the same order everywhere.
        last = partial(last_change, session, "user", user.user_id)
        with keeping_other_changes(
            form, lambda: _values(find_user_view(session, user.user_id) or user), last
        ):
            change_role(session, user.user_id, asked.role, organisation_id=asked.organisation)

    try:
        await database_of(request).run(work)
    except (StaleFormError, UsageError) as error:
        is_last = isinstance(error, LastAdministratorError)
        return await _page(request, user, form.refused(error, "role"), is_last=is_last)
    raise web.HTTPSeeOther(f"/admin/users/{user.user_id}?done=user-changed")


@administrators_only
@needs_fresh_sign_in
async def link(request: web.Request) -> web.Response:
    """Create a one-time sign-in link and show it; the link is shown only once."""
    return await _linked(request, LinkKind.SIGN_IN)


@administrators_only
@needs_fresh_sign_in
async def invite(request: web.Request) -> web.Response:
    """Create a new invitation, with which the user sets a password, and invalidate earlier ones."""
    return await _linked(request, LinkKind.INVITATION)


@administrators_only
async def confirm_disabling(request: web.Request) -> web.Response:
    """Ask for confirmation before a user is disabled."""
    user = await user_of(request)
    return confirmation(
        request,
        _("Disable %(name)s?") % {"name": user.name},
        _("The user is signed out everywhere, and the user's API tokens are no longer accepted."),
        _("No data is deleted: you can enable the user again."),
        steps=[(_("Administration"), "/admin"), (_("Users"), "/admin/users")],
        button=_("Disable user"),
        back=f"/admin/users/{user.user_id}",
    )


@administrators_only
async def disable(request: web.Request) -> web.StreamResponse:
    """Disable the user."""
    user = await user_of(request)
    try:
        await database_of(request).run(disable_user, user.user_id)
    except LastAdministratorError as error:
        raise RemediableConflict(
            error_text(error), path=_OTHERS, label=_("Choose another administrator")
        ) from None
    except UsageError as error:
        raise web.HTTPConflict(text=error_text(error)) from None
    raise web.HTTPSeeOther(f"/admin/users/{user.user_id}?done=user-disabled")


@administrators_only
@needs_fresh_sign_in
async def confirm_reset(request: web.Request) -> web.Response:
    """Ask for confirmation before a user's second factor is reset."""
    user = await user_of(request)
    return confirmation(
        request,
        _("Reset the second factor of %(name)s?") % {"name": user.name},
        _("Check by a method other than e-mail that the request comes from this user."),
        _("The user then signs in with the password alone, and can set up a new second factor."),
        steps=[(_("Administration"), "/admin"), (_("Users"), "/admin/users")],
        button=_("Reset second factor"),
        back=f"/admin/users/{user.user_id}",
    )


@administrators_only
@needs_fresh_sign_in
async def reset_second_factor(request: web.Request) -> web.StreamResponse:
    """Reset the second factor of a user who has lost it."""
    user = await user_of(request)
    await database_of(request).run(second_factor.disable, user.user_id)
    raise web.HTTPSeeOther(f"/admin/users/{user.user_id}?done=second-factor-reset")


@administrators_only
async def enable(request: web.Request) -> web.StreamResponse:
    """Enable a disabled user."""
    user = await user_of(request)
    await database_of(request).run(enable_user, user.user_id)
    raise web.HTTPSeeOther(f"/admin/users/{user.user_id}?done=user-enabled")


def base_url(request: web.Request) -> str:
    """Return the dashboard's address as its users reach it."""
    return request.config_dict[SETTINGS].web.base_url or f"{request.scheme}://{request.host}"


async def _linked(request: web.Request, kind: LinkKind) -> web.Response:
    user, settings = await user_of(request), request.config_dict[SETTINGS]
    with conflicts():
        made = await database_of(request).run(make_link, settings, user.name, base_url(request), kind=kind)
    return await _page(request, user, None, link=made, invitation=kind is LinkKind.INVITATION)


async def user_of(request: web.Request, number: int | None = None) -> UserView:
    """Return the user with that number, or the one in the path; respond 404 if there is none."""
    wanted = number or number_of(request)
    user = await database_of(request).run(find_user_view, wanted)
    if user is None:
        raise web.HTTPNotFound(text=_("User %(number)s does not exist.") % {"number": wanted})
    about(request, "user", user.user_id, user.name)
    return user


def _given(request: web.Request) -> dict[str, Any]:
    """Return the filter from the query string; no text column contains control characters."""
    given = {
        "words": text_in(request, "words").strip(),
        "role": choice_in(request, "role", list(Role)),
        "state": choice_in(request, "state", STATES),
    }
    return {name: text for name, text in given.items() if text}


async def _page(
    request: web.Request,
    user: UserView | None,
    form: Form | None,
    *,
    link: str | None = None,
    invitation: bool = False,
    is_last: bool = False,
) -> web.Response:
    web_settings = request.config_dict[SETTINGS].web
    if form is None and user is not None:
        form = Form(values=filled_from(_values(user)))
    return render(
        request,
        "admin_user.html",
        status=form.status if form is not None else 200,
        user=user,
        form=form,
        link=link,
        invitation=invitation,
        others=_OTHERS if is_last else None,
        hours=f"{web_settings.invitation_hours:g}",
        minutes=f"{web_settings.link_minutes:g}",
        **await _choices(request),
    )


def _values(user: UserView) -> dict[str, object]:
    return {"role": user.role.value, "organisation": user.organisation_id or ""}


async def _choices(request: web.Request) -> dict[str, Any]:
    organisations = await database_of(request).run(name_organisations)
    return {
        "roles": [
            (Role.VIEWER.value, _("viewer: read only")),
            (Role.PARTNER.value, _("partner: harvests for its organisation")),
            (Role.CURATOR.value, _("curator: manages the archive")),
            (Role.ADMINISTRATOR.value, _("administrator: everything")),
        ],
        "organisations": [("", _("none (own institution)")), *organisations],
    }


def _add_and_invite(
    session: Session,
    settings: Settings,
    address: str,
    name: str,
    role: Role,
    organisation_id: int | None,
) -> tuple[int, str]:
    user = add_user(session, name, role, organisation_id=organisation_id)
    return user.user_id, make_link(session, settings, user.name, address, kind=LinkKind.INVITATION)


ROUTES = (
    web.get("/admin/users", listing),
    web.get(f"/admin/users.{KINDS}", as_file, allow_head=False),
    web.get("/admin/users/new", new),
    web.post("/admin/users/new", invite_new),
    web.get(f"/admin/users/{NUMBER}", show),
    web.post(f"/admin/users/{NUMBER}", change),
    web.post(f"/admin/users/{NUMBER}/link", link),
    web.post(f"/admin/users/{NUMBER}/invite", invite),
    web.get(f"/admin/users/{NUMBER}/disable", confirm_disabling),
    web.post(f"/admin/users/{NUMBER}/disable", disable),
    web.post(f"/admin/users/{NUMBER}/enable", enable),
    web.get(f"/admin/users/{NUMBER}/second-factor", confirm_reset),
    web.post(f"/admin/users/{NUMBER}/second-factor", reset_second_factor),
)
