"""Addresses of objects and buckets, `s3://bucket/key`: their parts, and what users must not write in them.

Apart from `oai.s3`, which needs the extra `s3`.
"""

from typing import Final

from oai.errors import UsageError

S3: Final = "s3://"


def bucket_and_key(url: str) -> tuple[str, str]:
    """Return the bucket and the key of an S3 URL; the key is as it is: `#`, `?` and `%` belong to it."""
    bucket, _, key = url.removeprefix(S3).partition("/")
    return bucket, key


def check_address(url: str) -> None:
    """Raise UsageError for a URL (of S3 or HTTP) without bucket or host, and for one with credentials."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if not host:
        raise UsageError(f"{url}: the URL names no {'bucket' if scheme.lower() == 's3' else 'host'}")
    if "@" in host:
        # Without the credentials, because messages are logged.
        raise UsageError(
            f"{scheme}://…@{host.rpartition('@')[2]}/{path}: credentials do not belong in a URL, which "
            "is stored or logged; use the environment or the profile files of the object store"
        )


def missing_extra(url: str) -> UsageError:
    """Return the error for an installation without the library of object stores."""
    return UsageError(f"{url}: object stores need the extra `s3`; install it with  pip install 'zatva[s3]'")
