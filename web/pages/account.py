"""Signing in by link, signing out, and the user's own page."""

from aiohttp import web

from web.access import signed_in
from web.cookies import forget, form_token, session_token, set_form, set_session
from web.keys import SETTINGS
from web.rendering import render
from web.sessions import end_session, start_session
from web.signing_in import link_is_good, use_link
from web.threads import database_of
from web.tokens import new_token


async def ask(request: web.Request) -> web.Response:
    """Explain how to get a link, or show the button of the one that was followed.

    The link itself signs nobody in: programs that look through mail follow links, but press no buttons.
    """
    token = request.query.get("token")
    if token is None:
        return render(request, "sign_in.html")
    if not await database_of(request).run(link_is_good, token):
        return render(request, "sign_in_expired.html", status=410)
    if signed_in(request) is not None or form_token(request):
        return render(request, "sign_in_button.html", token=token)
    # The form has to repeat a value that this very answer gives to the browser.
    value = new_token()
    response = render(request, "sign_in_button.html", token=token, csrf_token=value)
    set_form(request, response, value)
    return response


async def sign_in(request: web.Request) -> web.StreamResponse:
    """Use the link up and begin a fresh session in place of any that there was."""
    form = await request.post()
    token, old = form.get("token"), session_token(request)
    settings = request.config_dict[SETTINGS].web
    database = database_of(request)
    user_id = await database.run(use_link, token) if isinstance(token, str) else None
    if user_id is None:
        return render(request, "sign_in_expired.html", status=410)
    if old:
        await database.run(end_session, old)
    value = await database.run(start_session, settings, user_id)
    response = web.HTTPSeeOther("/")
    forget(request, response)
    set_session(request, response, value)
    raise response


async def sign_out(request: web.Request) -> web.StreamResponse:
    """End the session."""
    token = session_token(request)
    if token:
        await database_of(request).run(end_session, token)
    response = web.HTTPSeeOther("/sign-in?done=signed-out")
    forget(request, response)
    raise response


async def account(request: web.Request) -> web.Response:
    """Who is signed in, as what, and until when."""
    return render(request, "account.html")


ROUTES = (
    web.get("/sign-in", ask),
    web.post("/sign-in", sign_in),
    web.post("/sign-out", sign_out),
    web.get("/account", account),
)
