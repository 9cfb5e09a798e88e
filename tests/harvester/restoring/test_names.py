"""File names of documents: inside the folder, unique, and with the extension of their type."""

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harvester.restoring.captures import Capture
from harvester.restoring.names import Names, natural_path

_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_PARTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["..", ".", "..%2f", "%2e%2e", "%00", "con", "NUL.html", "a.", "A", "a", "~part", "a" * 5000,
         "%C5%88", "?x=1", "?X=1", "a~2", "\\..\\..", "C:", "index.html", ""]
    ),
)  # fmt: skip
_URLS = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(
        ["http://h.example/", "https://h.example:81/", "http://..", "urn:", "http://[::1]/", "http://[", ""]
    ),
    st.lists(_PARTS, max_size=6),
)
_TYPES = st.sampled_from(["text/html", "", "text/css", "image/gif", "application/x-nothing", "..", "a/../b"])


def _capture(url: str, mime_type: str = "text/html", status: int = 200) -> Capture:
    return Capture(
        key="0" * 32,
        identifier="oai:x.example:" + "0" * 32,
        url=url,
        captured=datetime(2007, 11, 2, tzinfo=UTC),
        mime_type=mime_type,
        status=status,
        digest="",
        length=None,
        record_type="response",
    )


@settings(deadline=None, max_examples=60)
@given(captures=st.lists(st.builds(_capture, _URLS, _TYPES), max_size=12, unique_by=lambda one: one.url))
def test_the_file_of_any_url_is_inside_the_folder_and_unique(captures: list[Capture]) -> None:
    names = Names(captures, {})
    paths = [names.path(capture.url) for capture in captures]
    folded = {path.casefold() for path in paths}
    assert len(folded) == len(paths)
    for path in paths:
        parts = path.split("/")
        assert len(parts) > 1
        assert re.fullmatch(r"[A-Za-z0-9._@=&,+%~/-]+", path)
        assert len(path) < 240
        for part in parts:
            assert part not in {"", ".", ".."}
            assert len(part) < 130
            assert not part.startswith(".")
            assert not part.endswith((".", "~part"))
            assert not _RESERVED.fullmatch(part)
        assert not {str(above).casefold() for above in PurePosixPath(path).parents} & folded


@settings(deadline=None, max_examples=60)
@given(
    captures=st.lists(st.builds(_capture, _URLS, _TYPES), max_size=10, unique_by=lambda one: one.url),
    before=st.integers(0, 10),
)
def test_names_stay_when_captures_are_added_and_no_file_is_where_a_folder_is_needed(
    captures: list[Capture], before: int
) -> None:
    first = Names(captures[:before], {})
    known = {capture.url: first.path(capture.url) for capture in captures[:before]}
    names = Names(captures, known)
    assert {url: names.path(url) for url in known} == known
    folded = {names.path(capture.url).casefold() for capture in captures}
    assert len(folded) == len(captures)
    for path in folded:
        assert not {str(above) for above in PurePosixPath(path).parents} & folded


@pytest.mark.parametrize(
    ("url", "mime_type", "path"),
    [
        ("http://h.example", "text/html", "h.example/index.html"),
        ("http://h.example/news/?page=2", "text/html", "h.example/news/index@page=2.html"),
        ("http://h.example/a", "text/html", "h.example/a.html"),
        ("http://h.example/list.php", "text/html", "h.example/list.php.html"),
        ("http://h.example/list.HTM", "text/html", "h.example/list.HTM"),
        ("http://h.example/a.css?v=1", "text/css", "h.example/a.css@v=1.css"),
        ("http://h.example/image?id=1", "image/jpeg", "h.example/image@id=1.jpg"),
        ("http://h.example/photo.jpeg", "image/jpeg", "h.example/photo.jpeg"),
        ("http://h.example/photo.png", "image/jpeg", "h.example/photo.png.jpg"),
        ("http://h.example/style.css", "text/plain", "h.example/style.css"),
        ("http://h.example/setup.exe", "application/octet-stream", "h.example/setup.exe"),
        ("http://h.example:8080/x.js", "text/javascript", "h.example%3A8080/x.js"),
        ("http://h.example/../../etc/passwd", "", "h.example/%2E%2E/%2E%2E/etc/passwd"),
        ("dns:h.example", "text/dns", "+dns/h.example"),
    ],
)
def test_a_path_shows_the_url_and_the_type(url: str, mime_type: str, path: str) -> None:
    assert natural_path(_capture(url, mime_type)) == path


def test_a_document_gets_the_plain_name_and_a_redirect_to_it_another() -> None:
    moved, page = _capture("http://h.example/", status=301), _capture("https://h.example/")
    names = Names([moved, page], {})
    assert (names.path(page.url), names.path(moved.url)) == ("h.example/index.html", "h.example/index~2.html")
