"""The dashboard's two cookies: the session's, and the one that guards the sign-in form."""

from aiohttp import web

from web.keys import SETTINGS

_SESSION = "zatva_session"
_FORM = "zatva_form"
_SECURE_PREFIX = "__Host-"


def session_token(request: web.Request) -> str | None:
    """The session cookie's value."""
    return request.cookies.get(_name(request, _SESSION))


def form_token(request: web.Request) -> str | None:
    """The value of the cookie that a stranger's form has to repeat."""
    return request.cookies.get(_name(request, _FORM))


def set_session(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Give the browser its session; it lasts as long as the server's own row."""
    seconds = int(request.config_dict[SETTINGS].web.session_hours * 3600)
    _set(request, response, _SESSION, token, max_age=seconds)


def set_form(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Give a stranger's browser the value that its form repeats."""
    _set(request, response, _FORM, token, max_age=None)


def forget(request: web.Request, response: web.StreamResponse) -> None:
    """Take both cookies away."""
    for name in (_SESSION, _FORM):
        response.del_cookie(_name(request, name), path="/", secure=is_secure(request), httponly=True)


def is_secure(request: web.Request) -> bool:
    """Whether users reach the dashboard by https, as the settings say."""
    base_url = request.config_dict[SETTINGS].web.base_url
    return base_url is not None and base_url.startswith("https://")


def _name(request: web.Request, name: str) -> str:
    return _SECURE_PREFIX + name if is_secure(request) else name


def _set(
    request: web.Request, response: web.StreamResponse, name: str, value: str, *, max_age: int | None
) -> None:
    response.set_cookie(
        _name(request, name),
        value,
        path="/",
        max_age=max_age,
        httponly=True,
        samesite="Lax",
        secure=is_secure(request),
    )
