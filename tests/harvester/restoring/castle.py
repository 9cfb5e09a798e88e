"""A generated site with all features of real sites; its appearance is known, so a copy can be compared."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.provider.archives import Page

HOST: Final = "http://www.hrad.example"
ROOMS: Final = 120
HTML: Final = "text/html; charset=utf-8"
PIXEL: Final = bytes.fromhex(
    "47494638396101000100800000ffffff00000021f90401000000002c00000000010001000002024401003b"
)
CZECH: Final = "Příliš žluťoučký kůň"
RUSSIAN: Final = "Съешь же ещё"
JAPANESE: Final = "日本語の頁"


@dataclass(frozen=True, kw_only=True)
class Titled:
    """A page whose title a browser must show."""

    url: str
    title: str


TITLES: Final = (
    Titled(url=f"{HOST}/charset/header-only", title=CZECH),
    Titled(url=f"{HOST}/charset/meta.html", title=CZECH),
    Titled(url=f"{HOST}/charset/contradicts.html", title=RUSSIAN),
    Titled(url=f"{HOST}/charset/japanese.html", title=JAPANESE),
    Titled(url=f"{HOST}/charset/utf16.html", title=CZECH),
    Titled(url=f"{HOST}/charset/picture.svg", title=CZECH),
)


def pages() -> list[Page]:
    """Return all captures of the site, one per URL."""
    return [
        *_frame_of_the_site(),
        *_rooms(),
        *_pictures(),
        *_styles(),
        *_charsets(),
        *_odd_names(),
        *_redirects(),
    ]


def html(url: str, body: str, mime_type: str = HTML, charset: str = "utf-8", **more: object) -> Page:
    """Return an HTML page."""
    return Page(url=url, body=body.encode(charset), mime_type=mime_type, **more)  # type: ignore[arg-type]


def _frame_of_the_site() -> Iterator[Page]:
    rooms = "".join(
        f'<li><a href="rooms/room.php?id={number}&amp;lang=cs">{number}</a>' for number in range(ROOMS)
    )
    yield html(
        f"{HOST}/",
        "<!DOCTYPE html><html><head><title>Castle</title>"
        "<link rel=stylesheet href=/style/main.css?v=3 integrity=sha384-AAAA crossorigin=anonymous>"
        '<script src="//static.hrad.example/app.js" async></script>'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'self\'">'
        '</head><body background="img/a.gif" style="border-image: url(img/b.gif) 1">'
        '<img src="img/a.gif" srcset="img/a.gif 1x, /img/b.gif 2x,img/c,d.gif 3x" alt="">'
        '<picture><source srcset="img/b.gif"><img src=img/b.gif></picture>'
        '<video poster="img/a.gif"></video><object data="img/picture.svg" type="image/svg+xml"></object>'
        f'<ul>{rooms}</ul><a href="frames.html">frames</a> <a href="/charset/">charsets</a>'
        '<a href="/names/">names</a> <a href="moved/">redirects</a> <a href="based/page.html">base</a>'
        '<a href="mailto:a@b.example">mail</a> <a href="javascript:void(0)">nothing</a><a href="#top">top</a>'
        '<!-- <img src="never.gif"> --><script>var a = "<img src=\'never.gif\'>";</script>',
    )
    yield html(
        f"{HOST}/frames.html",
        '<frameset cols="1,1"><frame src="rooms/room.php?id=1&lang=cs">'
        "<frame src='rooms/room.php?id=2&lang=cs'>"
        '<noframes><a href="/">home</a></noframes></frameset>',
    )
    yield html(
        f"{HOST}/based/page.html",
        '<head><base href="/rooms/" target="_top"></head><a href="room.php?id=3&lang=cs#end">three</a>'
        '<img src="../img/a.gif"><iframe srcdoc="<img src=&quot;../img/b.gif&quot;>"></iframe>',
    )
    yield Page(
        url="https://static.hrad.example/app.js",
        body=b'document.documentElement.dataset.script = "ran";',
        mime_type="application/javascript",
    )


def _rooms() -> Iterator[Page]:
    for number in range(ROOMS):
        following = f"room.php?id={(number + 1) % ROOMS}&lang=cs"
        yield html(
            f"{HOST}/rooms/room.php?id={number}&lang=cs",
            f"<html><head><title>Room {number}</title><link rel=stylesheet href=../style/main.css?v=3>"
            f'</head><body>{CZECH}<a href="{following}#top">next</a><a href="/">home</a>'
            f'<img src="http://www.hrad.example/img/{"abc"[number % 3]}.gif"></body></html>',
        )


def _pictures() -> Iterator[Page]:
    for name in ("a", "b", "c", "c,d", "in css", "im+port"):
        url = f"{HOST}/img/{name.replace(' ', '%20')}.gif"
        yield Page(url=url, body=PIXEL, mime_type="image/gif")
    yield Page(
        url=f"{HOST}/img/picture.svg",
        body=b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"'
        b' xmlns:xlink="http://www.w3.org/1999/xlink"><a xlink:href="/rooms/room.php?id=5&amp;lang=cs">'
        b'<image xlink:href="a.gif" width="1" height="1"/></a></svg>',
        mime_type="image/svg+xml",
    )


def _styles() -> Iterator[Page]:
    yield Page(
        url=f"{HOST}/style/main.css?v=3",
        body=b'@import "deep/more.css" screen;\n/* url(never.gif) */\n'
        b"body { background: #fff url( '../img/in css.gif' ) }\nli { list-style-image: url(../img/a.gif) }\n"
        b'html { content: "url(never.gif)"; background-image: image-set("../img/b.gif" 1x) }\n',
        mime_type="text/css",
    )
    yield Page(
        url=f"{HOST}/style/deep/more.css",
        body="body::after { content: 'kůň'; background: url(../../img/im+port.gif) }".encode("cp1250"),
        mime_type="text/css; charset=windows-1250",
    )


def _charsets() -> Iterator[Page]:
    links = "".join(f'<a href="{one.url}">x</a>' for one in TITLES)
    yield html(f"{HOST}/charset/", f"<title>charsets</title>{links}")
    titled = f"<html><head><title>{CZECH}</title></head><body>{CZECH}<img src=../img/a.gif></body></html>"
    yield html(f"{HOST}/charset/header-only", titled, "text/html; charset=windows-1250", "cp1250")
    meta = titled.replace(
        "<head>", '<head><meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">'
    )
    yield html(f"{HOST}/charset/meta.html", meta, "text/html", "iso-8859-2")
    wrong = f'<html><head><meta charset="utf-8"><title>{RUSSIAN}</title></head></html>'
    yield html(f"{HOST}/charset/contradicts.html", wrong, "text/html; charset=KOI8-R", "koi8-r")
    japanese = f'<meta charset=shift_jis><title>{JAPANESE}</title><a href="../img/a.gif">表</a>'
    yield html(f"{HOST}/charset/japanese.html", japanese, "text/html", "cp932")
    yield html(f"{HOST}/charset/utf16.html", titled, "text/html; charset=utf-16le", "utf-16-le")
    yield Page(
        url=f"{HOST}/charset/picture.svg",
        body=f'<svg xmlns="http://www.w3.org/2000/svg"><title>{CZECH}</title></svg>'.encode("cp1250"),
        mime_type="image/svg+xml; charset=windows-1250",
    )


ODD: Final = (
    "Case.html", "case.html", "CASE.HTML", "folder", "folder/page.html", "con.html", "nul", "a.",
    ".hidden.html", "query.html?", "query.html?x=1&y=%2F..%2F", "query.html?X=1&y=%2F..%2F",
    "k%C5%AF%C5%88.html", "x%20y.html", "long-" + "l" * 300 + ".html", "deep/" * 60 + "end.html",
    "semi;colon.html", "star*.html", "no-type.asp",
    "colon:name.html", "~part.html", "a%2Fb.html",
)  # fmt: skip


def _odd_names() -> Iterator[Page]:
    links = "".join(f'<a href="{HOST}/names/{name}">x</a>' for name in ODD)
    yield html(f"{HOST}/names/", f"<title>names</title>{links}")
    for name in ODD:
        yield html(f"{HOST}/names/{name}", f"<title>{name}</title><a href='/names/'>back</a>")


def _redirects() -> Iterator[Page]:
    yield html(
        f"{HOST}/moved/",
        '<title>moved</title><a href="once">once</a><a href="chain">chain</a><a href="out">out</a>'
        '<a href="refresh.html">refresh</a><img src="picture">',
    )
    targets = {"once": "/rooms/room.php?id=7&lang=cs", "chain": "once", "out": "http://elsewhere.example/x"}
    for name, target in {**targets, "picture": "../img/a.gif"}.items():
        yield html(f"{HOST}/moved/{name}", "Moved", status=302, http_headers=f"Location: {target}\r\n")
    yield html(
        f"{HOST}/moved/refresh.html",
        "<meta http-equiv=refresh content=\"99; URL='../rooms/room.php?id=8&lang=cs'\">",
    )
    yield html("http://hrad.example/", "Moved", status=301, http_headers=f"Location: {HOST}/\r\n")
