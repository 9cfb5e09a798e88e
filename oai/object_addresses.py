"""Addresses of objects and buckets, `s3://bucket/key`: their parts, and what users must not write in them.

Apart from `oai.s3`, which needs the extra `s3`.
"""

from typing import Final

from oai.errors import UsageError

S3: Final = "s3://"
_NO_SEGMENTS: Final = frozenset({"", ".", ".."})


def bucket_and_key(url: str) -> tuple[str, str]:
    """Return the bucket and the key of an S3 URL; the key is as it is: `#`, `?` and `%` belong to it."""
    bucket, _, key = url.removeprefix(S3).partition("/")
    return bucket, key


def check_address(url: str) -> None:
    """Raise UsageError for a URL (of S3 or HTTP) without bucket or host, and for one with credentials.

    Keys of S3 with an empty segment, `.` or `..` are refused, too: the library cannot address them.
    """
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    is_s3 = scheme.lower() == "s3"
    if not host:
        raise UsageError(f"{url}: the URL names no {'bucket' if is_s3 else 'host'}")
    if "@" in host:
        # Without the credentials, because messages are logged.
        raise UsageError(
            f"{scheme}://…@{host.rpartition('@')[2]}/{path}: credentials do not belong in a URL, which "
            "is stored or logged; use the environment or the profile files of the object store"
        )
    if is_s3 and path and any(part in _NO_SEGMENTS for part in path.removesuffix("/").split("/")):
        raise UsageError(
            f"{url}: keys with an empty segment (`//`, or a slash at their beginning), `.` or `..` are not "
            "supported; copy the object to another key"
        )


def missing_extra(url: str) -> UsageError:
    """Return the error for an installation without the library of object stores."""
    return UsageError(f"{url}: object stores need the extra `s3`; install it with  pip install 'zatva[s3]'")
