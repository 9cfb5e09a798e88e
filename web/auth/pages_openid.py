"""Sign-in with the account of an OpenID provider: leaving for it, coming back, connecting accounts."""

import base64
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Final, Literal

from aiohttp import web
from sqlalchemy.orm import Session
from yarl import URL

from oai.audit import Actor, Subject, record, refuse
from oai.datestamps import utc_now
from oai.errors import UsageError, required
from oai.sections import OpenIdSettings
from web.auth.access import (
    Right,
    about,
    local_path,
    needs,
    needs_fresh_sign_in,
    signed_in,
    subject_of,
    who_asks,
)
from web.auth.audit import actor
from web.auth.openid import (
    PROVIDER,
    RETURN,
    Identity,
    OpenIdError,
    OpenIdProvider,
    OtherSignInError,
    ProviderRequest,
)
from web.auth.openid_users import (
    NoRoleError,
    add_unknown,
    apply_groups,
    connect,
    disable_owner,
    disconnect,
    find_identity,
    user_of,
)
from web.auth.pages import enter
from web.auth.sessions import (
    forget_provider_cookie,
    new_token,
    provider_cookie,
    session_token,
    set_provider_cookie,
    was_confirmed,
)
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.render import render

_log = logging.getLogger(__name__)
_Purpose = Literal["sign-in", "again", "connect"]
_LONGEST_ACCOUNT: Final = 300
_SKEW: Final = timedelta(minutes=1)
"""By how much the provider's clock may differ."""


@dataclass(frozen=True, kw_only=True)
class _PendingSignIn:
    """Why the browser went to the provider; kept in its cookie."""

    secret: str
    purpose: _Purpose
    following: str = "/"
    csrf: str = ""
    """Token of the session that connects an account: a planted cookie does not know it."""

    def packed(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def unpacked(cls, text: str) -> "_PendingSignIn | None":
        """Return what the cookie holds; None for anything that is not ours."""
        try:
            pending = cls(**json.loads(base64.urlsafe_b64decode(text)))
        except (ValueError, TypeError, RecursionError):
            return None
        return pending if all(isinstance(each, str) for each in asdict(pending).values()) else None


@needs(Right.ANYBODY)
async def leave_for_provider(request: web.Request) -> web.StreamResponse:
    """Send the browser to the provider, to sign in or, with `again`, to confirm that it is the user."""
    again = signed_in(request) is not None and "again" in request.query
    pending = _PendingSignIn(
        secret=new_token(), purpose="again" if again else "sign-in", following=local_path(request.query)
    )
    url = await _provider_url(request, pending)
    if url is None:
        return _unavailable(request, pending.purpose)
    response = web.HTTPSeeOther(url)
    set_provider_cookie(request, response, pending.packed())
    raise response


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def connect_account(request: web.Request) -> web.StreamResponse:
    """Show the page that leads to the provider, to connect the user's account there."""
    who = who_asks(request)
    about(request, "user", who.user_id, who.name)
    pending = _PendingSignIn(secret=new_token(), purpose="connect", following="/account", csrf=who.csrf_token)
    url = await _provider_url(request, pending)
    if url is None:
        return _unavailable(request, pending.purpose)
    # A page, not a redirect: our forms may lead to our own site alone (form-action).
    response = render(request, "openid_leave.html", url=str(url), provider=_name(request))
    set_provider_cookie(request, response, pending.packed())
    return response


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def disconnect_account(request: web.Request) -> web.StreamResponse:
    """Remove the connection to the user's account at the provider."""
    who = who_asks(request)
    about(request, "user", who.user_id, who.name)
    await database_of(request).run(disconnect, who.user_id)
    raise web.HTTPSeeOther("/account?done=account-disconnected")


@needs(Right.ANYBODY)
async def come_back(request: web.Request) -> web.StreamResponse:
    """Finish what the browser went to the provider for."""
    pending = _PendingSignIn.unpacked(provider_cookie(request) or "")
    if pending is None:
        if signed_in(request) is not None:  # by the browser's back button, after the sign-in
            raise web.HTTPSeeOther("/")
        return _failed(request, 403, _("The sign-in took too long, or began in another browser."))
    if pending.purpose != "sign-in" and signed_in(request) is None:  # the session ended meanwhile
        following = local_path({"next": pending.following})
        done = web.HTTPSeeOther(str(URL("/sign-in").with_query({"next": following})))
        forget_provider_cookie(request, done)
        raise done
    try:
        identity = await _provider(request).identity(dict(request.query), ProviderRequest.of(pending.secret))
        raise await _finished(request, pending, identity)
    except OpenIdError as error:
        return await _refused(request, error, pending.purpose)
    except NoRoleError as error:
        stated = await _end_access(request, error, identity)
        return await _kept_out(request, stated, identity, pending.purpose)
    except UsageError as error:
        return await _kept_out(request, error, identity, pending.purpose)


@needs(Right.ANYBODY)
async def sign_out_there(request: web.Request) -> web.StreamResponse:
    """Lead to the provider's own sign-out page, from which the user returns."""
    after = str(URL(request.config_dict[SETTINGS].web.base_url or "/").join(URL("/sign-in")))
    try:
        url = await _provider(request).end_session_url(after)
    except OpenIdError as error:
        _log.error("sign-out at %s: %s", _name(request), error)
        words = _("You are signed out here, but perhaps not at %(provider)s. Sign out there, too.")
        return _failed(request, 502, words % {"provider": _name(request)}, purpose="sign-out")
    raise web.HTTPSeeOther(url or "/sign-in?done=no-sign-out-there")


async def _finished(request: web.Request, pending: _PendingSignIn, identity: Identity) -> web.HTTPException:
    """Return the redirect after the sign-in. Raises UsageError."""
    following, openid = local_path({"next": pending.following}), request.config_dict[SETTINGS].openid
    # Whatever the browser went there for: the provider has just said which groups the user has.
    await _changing(request, apply_groups, openid, identity)
    if pending.purpose == "again":
        await _confirm(request, identity)
        done: web.HTTPException = web.HTTPSeeOther(following)
    elif pending.purpose == "connect":
        await _connect(request, pending, identity)
        done = web.HTTPSeeOther("/account?done=account-connected")
    else:
        await _changing(request, add_unknown, openid, identity)
        known = await database_of(request).run(user_of, openid, identity)
        done = await enter(request, known, way="openid", following=following, since=identity.since)
    await _record(
        request, {"sign-in": "sign-in", "again": "sign-in.again"}.get(pending.purpose, "account.openid")
    )
    forget_provider_cookie(request, done)
    return done


async def _changing(request: web.Request, work: Callable[..., Subject | None], *given: object) -> None:
    """Do the work, and record in the same transaction what it changed."""
    who, days = _actor(request), request.config_dict[SETTINGS].web.audit_days

    def change(session: Session) -> None:
        changed = work(session, *given)
        if changed is not None:
            named = replace(who, name=who.name or changed.name)
            record(
                session, required(changed.action, "it changed"), named, changed, status=303, audit_days=days
            )

    await database_of(request).run(change)


async def _kept_out(
    request: web.Request, error: UsageError, identity: Identity, purpose: _Purpose
) -> web.Response:
    """Return the refusal of somebody whom the provider knows; log and audit log name them."""
    _log.warning(
        "sign-in with %s: refused %s %r (%r, groups %s): %s",
        _name(request),
        identity.issuer,
        identity.subject,
        identity.name,
        ", ".join(map(repr, identity.groups)) or "none",
        error,
    )
    if subject_of(request) is None:
        user = await database_of(request).run(find_identity, identity)
        if user is not None:
            about(request, "user", user.user_id, user.name)
        else:
            about(request, "user", None, f"{identity.issuer} {identity.subject}"[:_LONGEST_ACCOUNT])
    await _count_refusal(request)
    return _failed(request, 403, error_text(error), purpose=purpose)


async def _count_refusal(request: web.Request) -> None:
    subject = subject_of(request)
    await database_of(request).run(refuse, "sign-in.refused", _actor(request), subject, 422)


async def _end_access(request: web.Request, error: UsageError, identity: Identity) -> UsageError:
    """Disable the user whose groups have no role any more: sessions and API tokens would keep the old one.

    Return the error, with what the user has to ask for, too.
    """
    try:
        await _changing(request, disable_owner, identity)
    except UsageError as kept:
        _log.warning("sign-in with %s: %r keeps the role: %s", _name(request), identity.subject, kept)
    user = await database_of(request).run(find_identity, identity)
    if user is None or user.disabled is None:
        return error
    words = _("Your account %(name)s is disabled until an administrator enables it.") % {"name": user.name}
    return UsageError(f"{error_text(error)} {words}")


async def _confirm(request: web.Request, identity: Identity) -> None:
    """Accept the proof of a user who is signed in; the time is the provider's, not the cookie's."""
    who, token = who_asks(request), session_token(request)
    about(request, "user", who.user_id, who.name)
    if who.has_second_factor and request.config_dict[SETTINGS].openid.second_factor == "ours":
        raise UsageError(_("Confirm with the code of your second factor instead."))
    owner = await database_of(request).run(_owner_of, identity)
    if owner != who.user_id or token is None:
        raise UsageError(_("This is not the account with which you are signed in."))
    limit = timedelta(minutes=request.config_dict[SETTINGS].web.fresh_minutes) + _SKEW
    if identity.since is None or utc_now() - identity.since > limit:
        raise UsageError(
            _("%(provider)s did not ask you who you are. Sign out here and there, and sign in again.")
            % {"provider": _name(request)}
        )
    await database_of(request).run(was_confirmed, token)


def _owner_of(session: Session, identity: Identity) -> int | None:
    user = find_identity(session, identity)
    return user.user_id if user is not None else None


async def _connect(request: web.Request, pending: _PendingSignIn, identity: Identity) -> None:
    who = who_asks(request)
    if not pending.csrf or pending.csrf != who.csrf_token:
        raise UsageError(_("You signed out and in again in the meantime. Nothing was connected."))
    about(request, "user", who.user_id, who.name, openid=f"{identity.issuer} {identity.subject}")
    await _changing(request, _connected, request.config_dict[SETTINGS].openid, identity, who.user_id)


def _connected(
    session: Session, settings: OpenIdSettings, identity: Identity, user_id: int
) -> Subject | None:
    connect(session, identity, user_id)
    return apply_groups(session, settings, identity)


async def _record(request: web.Request, action: str) -> None:
    # The provider sends the browser back by GET, which the audit log otherwise leaves out.
    subject = subject_of(request)
    if subject is not None:
        days = request.config_dict[SETTINGS].web.audit_days
        await database_of(request).run(record, action, _actor(request), subject, status=303, audit_days=days)


def _actor(request: web.Request) -> Actor:
    return replace(actor(request), via="openid")


async def _provider_url(request: web.Request, pending: _PendingSignIn) -> URL | None:
    """Return the provider's address, or None if the provider cannot be asked, which is logged."""
    minutes = request.config_dict[SETTINGS].web.fresh_minutes
    again = round(minutes * 60) if pending.purpose == "again" else None
    try:
        url = await _provider(request).provider_url(ProviderRequest.of(pending.secret), again_within=again)
    except OpenIdError as error:
        _log.error("sign-in with %s: %s", _name(request), error)
        return None
    return URL(url, encoded=True)


def _unavailable(request: web.Request, purpose: _Purpose) -> web.Response:
    words = _(
        "%(provider)s is not available; the reason is in the log of the dashboard. Try again later, or sign "
        "in by another method."
    )
    return _failed(request, 502, words % {"provider": _name(request)}, purpose=purpose)


async def _refused(request: web.Request, error: OpenIdError, purpose: _Purpose) -> web.Response:
    # What providers say goes to the log: strangers can ask for this page, and it may name private addresses.
    # Strangers can send long ones.
    _log.warning("sign-in with %s: %.800s", _name(request), error)
    await _count_refusal(request)
    if isinstance(error, OtherSignInError):
        words = _("This was another sign-in. Finish it in the tab in which you began it last.")
        return _failed(request, 403, words, purpose=purpose, forgets=False)
    if request.query.get("error") == "access_denied":
        words = _("You cancelled, or the provider did not let you in.")
        return _failed(request, 403, words, purpose=purpose)
    return _failed(request, 403, purpose=purpose)


def _failed(
    request: web.Request,
    status: int,
    words: str | None = None,
    *,
    purpose: _Purpose | Literal["sign-out"] = "sign-in",
    forgets: bool = True,
) -> web.Response:
    response = render(
        request, "openid_failed.html", status=status, words=words, provider=_name(request), purpose=purpose
    )
    if forgets:
        forget_provider_cookie(request, response)
    return response


def _provider(request: web.Request) -> OpenIdProvider:
    provider = request.config_dict.get(PROVIDER)
    if provider is None:
        raise web.HTTPNotFound(text=_("Sign-in with another service is not set up here."))
    return provider


def _name(request: web.Request) -> str:
    return request.config_dict[SETTINGS].openid.name


ROUTES = (
    web.get("/sign-in/openid", leave_for_provider),
    web.get(RETURN, come_back),
    web.get("/sign-in/openid/sign-out", sign_out_there),
    web.post("/account/openid/connect", connect_account),
    web.post("/account/openid/disconnect", disconnect_account),
)
