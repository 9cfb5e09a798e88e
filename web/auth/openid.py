"""Sign-in by OpenID Connect: authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0).

Nothing is stored between leaving for the provider and coming back: state, nonce and code verifier are derived
from a random secret in a cookie of the browser that left, so that no other browser can finish the sign-in.
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from aiohttp import web
from authlib.common.urls import add_params_to_uri
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet
from yarl import URL

from oai.errors import SettingsError, ZatvaError
from oai.private_files import read_secret
from oai.reach import UnreachableZoneError, ZoneOf, guarded_connector, tls_fault, zone_of
from oai.sections import OpenIdSettings

_log = logging.getLogger(__name__)
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_ALGORITHMS: Final = (*_RSA, "ES256", "ES384", "ES512", "Ed25519")
"""Signatures with the provider's own key: neither `none` nor HMAC, whose key every client knows."""
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_MAX_BYTES: Final = 1024 * 1024
FRESH_SECONDS: Final = 3600
"""How long discovery document and keys are used before they are fetched again."""
FAILED_SECONDS: Final = 5
"""How long a failure to fetch the discovery document is the answer to others, too."""
REFETCH_SECONDS: Final = 60
"""How often unknown keys may lead to a request at the provider."""
_LEEWAY: Final = 60
"""Seconds by which the provider's clock may differ."""
_GOOD: Final = 200


class OpenIdError(ZatvaError):
    """The provider could not be asked, or what it said cannot be accepted; in words for administrators."""


class OtherSignInError(OpenIdError):
    """The answer belongs to another departure for the provider, for example in another tab."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who the provider says has signed in."""

    issuer: str
    subject: str
    """Identifier of the account: unique at this issuer, never given to another."""
    name: str
    """Proposed user name; may be empty."""
    is_verified: bool = True
    """Whether the provider does not deny that the user owns the e-mail address that is the name."""
    groups: tuple[str, ...]
    has_groups: bool
    """Whether the provider sent groups in a known form, if only an empty list."""
    since: datetime | None
    """Time at which the user proved to the provider who they are; None if it does not say."""


@dataclass(frozen=True, kw_only=True)
class ProviderRequest:
    """What leaves with the browser for the provider, and what the return is checked against."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def of(cls, secret: str) -> "ProviderRequest":
        """Derive everything from the secret in the browser's cookie."""
        return cls(
            state=_derived(secret, "state"),
            nonce=_derived(secret, "nonce"),
            verifier=_derived(secret, "code"),
        )


def _derived(secret: str, purpose: str) -> str:
    # The secret has 256 random bits; the provider sees the derived values and learns nothing about it.
    return hashlib.sha256(f"{purpose}:{secret}".encode(errors="surrogateescape")).hexdigest()


class OpenIdProvider:
    """The configured provider; remembers its discovery document and keys."""

    def __init__(self, settings: OpenIdSettings, *, return_address: str, zone_of: ZoneOf = zone_of) -> None:
        """Take the settings, which name an issuer, and the address to which the provider sends users back."""
        self._settings, self._return, self._zone_of = settings, return_address, zone_of
        self._issuer = settings.issuer or ""
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._failed: tuple[float, str] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._lock = asyncio.Lock()

    async def provider_url(self, request: ProviderRequest, *, again_within: int | None = None) -> str:
        """Return the provider's address to which the browser goes.

        With `again_within`, the user must have proved who they are within this number of seconds.
        """
        metadata, wishes = await self.metadata(), {}
        if again_within is not None:
            wishes = {"prompt": "login", "max_age": str(again_within)}
        if self._settings.acr:
            wishes["acr_values"] = " ".join(self._settings.acr)
        uri: str = prepare_grant_uri(
            metadata["authorization_endpoint"],
            client_id=self._settings.client_id,
            response_type="code",
            redirect_uri=self._return,
            scope=" ".join(dict.fromkeys(("openid", *self._settings.scopes))),
            state=request.state,
            nonce=request.nonce,
            code_challenge=create_s256_code_challenge(request.verifier),
            code_challenge_method="S256",
            **wishes,
        )
        return uri

    async def end_session_url(self, after: str) -> str | None:
        """Return the provider's sign-out page, from which the user returns to `after`, if it has one."""
        endpoint = (await self.metadata()).get("end_session_endpoint")
        if not isinstance(endpoint, str) or not self._is_safe(endpoint):
            return None
        where = {"client_id": self._settings.client_id, "post_logout_redirect_uri": after}
        uri: str = add_params_to_uri(endpoint, list(where.items()))
        return uri

    async def identity(self, answer: Mapping[str, str], request: ProviderRequest) -> Identity:
        """Redeem the code with which the browser came back. Raises OpenIdError."""
        await self._check_answer(answer, request)
        metadata = await self.metadata()
        tokens = await self._redeem(metadata, answer["code"], request)
        claims = await self._claims(metadata, tokens, request)
        # Issuer and subject are enough for a known user; the endpoint may be down, or sign its answers.
        needed = {self._settings.groups_claim} if self._settings.roles else set()
        needed |= {self._settings.user_claim} if self._settings.create_users else set()
        if needed - claims.keys() and "userinfo_endpoint" in metadata:
            claims = {**await self._user_info(metadata["userinfo_endpoint"], tokens, claims["sub"]), **claims}
        return self._identity(claims)

    async def metadata(self) -> Mapping[str, Any]:
        """Return the discovery document. Raises OpenIdError if it is unavailable or names another issuer."""
        async with self._lock:
            kept = self._metadata
            if kept is not None and time.monotonic() - kept[0] < FRESH_SECONDS:
                return kept[1]
            # Who waited for the lock meanwhile shares the failure, and does not wait for the next one.
            if self._failed is not None and time.monotonic() - self._failed[0] < FAILED_SECONDS:
                raise OpenIdError(self._failed[1])
            try:
                found = await self._fetch(get_well_known_url(self._issuer, external=True))
                self._check_metadata(found)
            except OpenIdError as error:
                if kept is None:
                    self._failed = (time.monotonic(), str(error))
                    raise
                _log.warning("%s; the known discovery document is used", error)
                found = kept[1]
            self._metadata = (time.monotonic(), found)
            return found

    async def keys(self) -> KeySet:
        """Fetch the keys with which the provider signs. Raises OpenIdError."""
        found = await self._fetch((await self.metadata())["jwks_uri"])
        keys = KeySet(list(_usable(found)))
        if not keys.keys:
            raise OpenIdError(f"{self._issuer}: it publishes no usable key")
        self._keys = (time.monotonic(), keys)
        return keys

    def secret(self) -> str | None:
        """Return the secret of the client, if it has one. Raises OpenIdError if its file is unreadable."""
        given, file = self._settings.client_secret, self._settings.client_secret_file
        try:
            return read_secret(given, file, setting="openid.client_secret_file")
        except SettingsError as error:
            raise OpenIdError(str(error)) from None

    def _check_metadata(self, found: Mapping[str, Any]) -> None:
        if found.get("issuer") != self._issuer:
            raise OpenIdError(
                f"the discovery document is of {found.get('issuer')!r}, not of {self._issuer!r}; if it is "
                "the right one, set openid.issuer to exactly what it names"
            )
        for name in _ENDPOINTS:
            if not isinstance(found.get(name), str) or not self._is_safe(found[name]):
                raise OpenIdError(
                    f"{self._issuer}: its {name} is {found.get(name)!r}, no address with https://"
                )

    def _is_safe(self, address: str) -> bool:
        # An issuer on this machine may do without encryption, and so may its endpoints; no other.
        try:
            parts, schemes = URL(address), {"https", URL(self._issuer).scheme}
            return address.isprintable() and parts.scheme in schemes and bool(parts.host)
        except ValueError:  # for example a port above 65535: neither Zatva nor a browser can go there
            return False

    async def _check_answer(self, answer: Mapping[str, str], request: ProviderRequest) -> None:
        if answer.get("state") != request.state:
            raise OtherSignInError("the answer does not belong to this sign-in: the state differs")
        issuer = answer.get("iss")  # RFC 9207: an answer of another provider that the browser also visits
        expected = (await self.metadata()).get("authorization_response_iss_parameter_supported") is True
        if issuer != self._issuer and (issuer is not None or expected):
            raise OpenIdError(f"the answer comes from {issuer!r}, not from {self._issuer!r}")
        if "error" in answer:
            described = answer.get("error_description", "")
            raise OpenIdError(f"the provider refused: {answer['error']} {described}".rstrip())
        if not answer.get("code"):
            raise OpenIdError("the answer has no code")

    async def _redeem(
        self, metadata: Mapping[str, Any], code: str, request: ProviderRequest
    ) -> Mapping[str, Any]:
        body = prepare_token_request(
            "authorization_code", redirect_uri=self._return, code=code, code_verifier=request.verifier
        )
        secret = self.secret()
        offered = metadata.get("token_endpoint_auth_methods_supported")
        way = "none" if secret is None else "client_secret_basic"
        if secret is not None and isinstance(offered, list) and "client_secret_basic" not in offered:
            way = "client_secret_post"
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        auth = ClientAuth(self._settings.client_id, secret, way)
        uri, headers, body = auth.prepare("POST", metadata["token_endpoint"], headers, body)
        return await self._fetch(uri, body=body, headers=headers)

    async def _claims(
        self, metadata: Mapping[str, Any], tokens: Mapping[str, Any], request: ProviderRequest
    ) -> dict[str, Any]:
        """Return the claims of the ID token after every check of section 3.1.3.7 of the standard."""
        token = tokens.get("id_token")
        if not isinstance(token, str):
            raise OpenIdError("the provider sent no ID token; is `openid` among the scopes it allows?")
        decoded: jwt.Token | None = None
        try:
            decoded = await self._decoded(token)
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": metadata["issuer"]},
                    "aud": {"essential": True, "value": self._settings.client_id},
                },
                params={
                    "nonce": request.nonce,
                    "client_id": self._settings.client_id,
                    "access_token": tokens.get("access_token"),
                },
            )
            claims.validate(leeway=_LEEWAY)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            said = str(error).rstrip(": ")
            raise OpenIdError(f"the ID token cannot be accepted: {said}; {self._facts(decoded)}") from None
        if self._settings.acr and claims.get("acr") not in self._settings.acr:
            raise OpenIdError(
                f"the sign-in was of the kind {claims.get('acr')!r}; openid.acr asks for another"
            )
        return dict(claims)

    def _facts(self, decoded: jwt.Token | None) -> str:
        """Return what an administrator needs to find out why a token was not accepted."""
        if decoded is None:
            return f"if the provider has new keys, try again in {REFETCH_SECONDS} seconds"
        sent = ", ".join(f"{name} {decoded.claims.get(name)!r}" for name in ("aud", "iat", "exp"))
        return (
            f"it has {sent}; openid.client_id is {self._settings.client_id!r}, and the clock here is at "
            f"{int(time.time())}: clocks may differ by {_LEEWAY} seconds"
        )

    async def _decoded(self, token: str) -> jwt.Token:
        """Check the signature; an unknown key is looked for once, because providers replace theirs."""
        kept = self._keys
        age = time.monotonic() - kept[0] if kept is not None else FRESH_SECONDS
        try:
            keys = kept[1] if kept is not None and age < FRESH_SECONDS else await self.keys()
        except OpenIdError as error:
            if kept is None:
                raise
            _log.warning("%s; the known keys are used", error)
            keys, self._keys = kept[1], (time.monotonic(), kept[1])
        try:
            return jwt.decode(token, keys, algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            if age < REFETCH_SECONDS or kept is None or keys is not kept[1]:
                raise
        return jwt.decode(token, await self.keys(), algorithms=_ALGORITHMS)

    async def _user_info(self, endpoint: object, tokens: Mapping[str, Any], subject: str) -> dict[str, Any]:
        if not isinstance(endpoint, str) or not self._is_safe(endpoint):
            return {}
        headers = {"Authorization": f"Bearer {tokens.get('access_token', '')}"}
        found = await self._fetch(endpoint, headers=headers)
        if found.get("sub") != subject:  # section 5.3.2: claims of somebody else
            raise OpenIdError("the provider's user information is about another user")
        return dict(found)

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        groups = self._groups(claims.get(self._settings.groups_claim))
        name, subject = claims.get(self._settings.user_claim, ""), str(claims["sub"])
        if not subject.isprintable():
            raise OpenIdError(f"the ID token's sub, {subject!r}, is not printable")
        return Identity(
            issuer=self._issuer,
            subject=subject,
            name=name if isinstance(name, str) else "",
            is_verified=self._settings.user_claim != "email"
            or str(claims.get("email_verified")).lower() != "false",
            groups=groups or (),
            has_groups=groups is not None,
            since=_moment(claims.get("auth_time")),
        )

    def _groups(self, sent: object) -> tuple[str, ...] | None:
        """Return the names of groups; None for anything else, from which no lost group can be concluded."""
        each = [sent] if isinstance(sent, str) else sent
        if isinstance(each, list) and all(type(one) in (str, int) for one in each):
            return tuple(map(str, each))
        if sent is not None and self._settings.roles:
            claim = self._settings.groups_claim
            _log.warning("the claim %s is no name and no list of names, and is ignored: %.200r", claim, sent)
        return None

    async def _fetch(
        self, url: str, *, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """Return the JSON object at an address of the provider. Raises OpenIdError."""
        method = "GET" if body is None else "POST"
        with_json = {"Accept": "application/json", **(headers or {})}
        try:
            # Redirects could lead to addresses that the provider does not vouch for, with the secret.
            async with (
                self._session() as session,
                session.request(method, url, data=body, headers=with_json, allow_redirects=False) as answer,
            ):
                text = await _whole(answer)
        except TimeoutError:
            raise OpenIdError(f"{url}: no answer in {self._settings.timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError) as error:
            raise OpenIdError(f"{url}: {_reason(error)}") from None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if answer.status != _GOOD or not isinstance(found, dict):
            reason = found.get("error") if isinstance(found, dict) else None
            reason = reason or f"not a JSON object but {answer.content_type}"
            if answer.content_type == "application/jwt":
                reason += "; turn off signed answers for this client at the provider"
            raise OpenIdError(f"{url}: HTTP status {answer.status}, {reason}")
        return found

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = guarded_connector(private=self._settings.private_networks, zone_of=self._zone_of)
        timeout = aiohttp.ClientTimeout(total=self._settings.timeout)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield session


def _moment(auth_time: object) -> datetime | None:
    """Return the time of a proof; None if it is missing or no time, such as one in milliseconds."""
    if not isinstance(auth_time, int | float):
        return None
    try:
        return datetime.fromtimestamp(auth_time, UTC)
    except (ValueError, OverflowError, OSError):
        _log.warning("auth_time of the ID token, %r, is not in seconds since 1970; it is ignored", auth_time)
        return None


def _usable(found: Mapping[str, Any]) -> Iterator[Key]:
    """Yield the keys that joserfc knows; one of another kind or an incomplete one blocks no others."""
    given = found.get("keys")
    for key in given if isinstance(given, list) else []:
        if isinstance(key, dict) and key.get("kty") in ("RSA", "EC", "OKP") and key.get("use") != "enc":
            try:
                yield JWKRegistry.import_key(key)
            except (JoseError, ValueError, TypeError, KeyError) as error:
                _log.warning("the provider's key %r is ignored: %s", key.get("kid"), error)


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    read = b""
    async for part in answer.content.iter_chunked(64 * 1024):
        read += part
        if len(read) > _MAX_BYTES:
            raise aiohttp.ClientPayloadError(f"the answer is longer than {_MAX_BYTES} bytes")
    return read


def _reason(error: Exception) -> str:
    cause = getattr(error, "os_error", None)
    if isinstance(cause, UnreachableZoneError):
        return f"{cause}; to allow private networks, set openid.private_networks"
    return tls_fault(error) or str(error) or type(error).__name__


PROVIDER = web.AppKey("openid_provider", OpenIdProvider)
"""Only there if the settings name an issuer."""
RETURN: Final = "/sign-in/openid/return"
