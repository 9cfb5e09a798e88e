"""The page on which users set up their second factor, replace recovery codes, and turn it off."""

import segno
from aiohttp import web
from markupsafe import Markup
from yarl import URL

from oai.errors import UsageError
from web.auth.access import Right, about, needs, needs_fresh_sign_in, who_asks
from web.auth.pages import check_code
from web.auth.second_factor import app_address, codes_left, disable, enable, proposed_secret, renew_codes
from web.site.forms import Form
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.render import render


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def show(request: web.Request) -> web.Response:
    """Show how to set up the second factor or, if it is set up, what can be done with it."""
    return await _page(request)


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def turn_on(request: web.Request) -> web.Response:
    """Turn the second factor on with a code of the app, and show the recovery codes once."""
    who, code = who_asks(request), (await request.post()).get("code", "")
    if who.has_second_factor:  # the page with the codes was loaded again
        raise web.HTTPSeeOther("/account/second-factor?done=codes-shown")
    about(request, "user", who.user_id, who.name)
    try:
        codes = await database_of(request).run(enable, who.user_id, str(code))
    except UsageError as error:
        return await _page(request, Form(values={}).with_error("code", error_text(error)))
    return await _page(request, codes=codes)


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def renew(request: web.Request) -> web.Response:
    """Replace the recovery codes and show the new ones once."""
    who = who_asks(request)
    if not who.has_second_factor:
        raise web.HTTPSeeOther("/account/second-factor")
    about(request, "user", who.user_id, who.name)
    return await _page(request, codes=await database_of(request).run(renew_codes, who.user_id))


@needs(Right.ACCOUNT)
@needs_fresh_sign_in
async def turn_off(request: web.Request) -> web.StreamResponse:
    """Turn the second factor off; a current code proves that it is the user who does it."""
    who, code = who_asks(request), (await request.post()).get("code", "")
    about(request, "user", who.user_id, who.name)
    try:
        await check_code(request, who.user_id, who.name, str(code))
    except UsageError as error:
        return await _page(request, Form(values={}).with_error("code", error_text(error)))
    await database_of(request).run(disable, who.user_id)
    raise web.HTTPSeeOther("/account?done=second-factor-off")


async def _page(
    request: web.Request, form: Form | None = None, *, codes: list[str] | None = None
) -> web.Response:
    """Render the page; `codes` are shown but not stored."""
    who, database = who_asks(request), database_of(request)
    is_on = who.has_second_factor or codes is not None
    secret = None if is_on else await database.run(proposed_secret, who.user_id)
    return render(
        request,
        "second_factor.html",
        status=422 if form is not None and form.errors else 200,
        form=form or Form(values={}),
        is_on=is_on,
        must=who.lacks_second_factor(request.config_dict[SETTINGS]) and not is_on,
        codes=codes,
        left=await database.run(codes_left, who.user_id) if is_on else 0,
        secret=secret,
        picture=_qr_code(request, who.name, secret) if secret else None,
    )


def _qr_code(request: web.Request, user_name: str, secret: str) -> Markup:
    """Return the QR code as inline SVG; it has a white ground in the dark theme, too, as readers need."""
    base_url = request.config_dict[SETTINGS].web.base_url
    installation = (URL(base_url).host or "") if base_url else request.host
    code = segno.make(app_address(user_name, secret, installation), error="m")
    title = _("QR code of the secret for an authenticator app")
    return Markup(code.svg_inline(omitsize=True, light="#fff", svgclass="qr", title=title))  # noqa: S704 drawn by segno


ROUTES = (
    web.get("/account/second-factor", show),
    web.post("/account/second-factor/enable", turn_on),
    web.post("/account/second-factor/codes", renew),
    web.post("/account/second-factor/disable", turn_off),
)
