"""Captures and records as a provider lists them."""

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any

from harvester.restoring.captures import Capture

KEY = "0123456789abcdef" * 2


def sha1(body: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(body).digest()).decode()  # noqa: S324 what WARC uses


def capture(**facts: Any) -> Capture:
    plain: dict[str, Any] = {
        "key": KEY,
        "identifier": f"oai:a.example:{KEY}",
        "url": "http://h.example/",
        "captured": datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC),
        "mime_type": "text/html",
        "status": 200,
        "digest": "",
        "length": None,
        "record_type": "response",
    }
    return Capture(**{**plain, **facts})
