"""The settings of sign-in by OpenID Connect, with defaults and constraints."""

import ipaddress
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from oai.rights import Role
from oai.sections.section import Section

_PARTNER: Final = "partner:"
_ORDER: Final = (Role.ADMINISTRATOR, Role.CURATOR, Role.PARTNER, Role.VIEWER)
"""From the strongest role on."""


class OpenIdSettings(Section):
    """Sign-in to the dashboard with the accounts of an OpenID provider, beside passwords."""

    issuer: str | None = Field(
        None,
        description="Address of the OpenID provider, exactly as its discovery document names it, such as "
        "`https://login.cesnet.cz/oidc/`. Unset: users sign in with passwords, links or a proxy.",
    )
    client_id: str = Field("", description="Identifier under which Zatva is registered at the provider.")
    client_secret: SecretStr | None = Field(
        None, description="Secret of `client_id`; `client_secret_file` is safer."
    )
    client_secret_file: Path | None = Field(None, description="File whose first line is the secret.")
    name: str = Field(
        "OpenID", min_length=1, max_length=40, description="Name of the provider on the sign-in button."
    )
    scopes: tuple[Annotated[str, Field(pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")], ...] = Field(
        ("openid", "profile", "email"),
        description="Scopes that are requested; `openid` is always among them.",
    )
    user_claim: str = Field(
        "preferred_username", min_length=1, description="Claim with the user name of new users."
    )
    groups_claim: str = Field(
        "groups", min_length=1, description="Claim with the groups or entitlements that `roles` maps."
    )
    roles: dict[str, str] = Field(
        {},
        description="Role for each group: `administrator`, `curator`, `viewer`, or `partner:` with the "
        "short name of an organisation. The strongest counts, and of several organisations the first one "
        "here that exists, at each sign-in; users without any may not sign in. Empty: administrators set the "
        "roles.",
    )
    create_users: bool = Field(
        default=False,
        description="Whether unknown users are added at their first sign-in, as viewers unless `roles` says "
        "otherwise. If not, users connect their accounts on the page of their account.",
    )
    acr: tuple[str, ...] = Field(
        (),
        description="Kinds of sign-in (`acr`) of which the provider must assure one, such as "
        "`https://refeds.org/profile/mfa`.",
    )
    second_factor: Literal["theirs", "ours"] = Field(
        "theirs",
        description="Whether the provider is responsible for a second factor, or Zatva asks for its own.",
    )
    passwords: bool = Field(
        default=True, description="Whether the sign-in page also offers passwords; one-time links remain."
    )
    end_session: bool = Field(
        default=False,
        description="Whether signing out also leads users who signed in with the provider to its sign-out "
        "page.",
    )
    private_networks: bool = Field(
        default=False, description="Whether the provider may be in a private network or on this machine."
    )
    timeout: float = Field(10, gt=0, le=60, description="Seconds to wait for the provider's answer.")

    @field_validator("issuer")
    @classmethod
    def _is_safe(cls, value: str | None) -> str | None:
        if not value:
            return None
        parts = urlsplit(value)
        local = parts.hostname is not None and (parts.hostname == "localhost" or _is_loopback(parts.hostname))
        if not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and local)):
            raise ValueError("write an address that begins with https://")
        if parts.query or parts.fragment:
            raise ValueError("write the address without ? and #")
        return value

    @field_validator("roles")
    @classmethod
    def _are_roles(cls, value: dict[str, str]) -> dict[str, str]:
        for group, role in value.items():
            plain = role.startswith(_PARTNER) and role.removeprefix(_PARTNER).strip()
            if not plain and role not in (Role.ADMINISTRATOR, Role.CURATOR, Role.VIEWER):
                raise ValueError(
                    f"group {group!r}: write administrator, curator, viewer, or partner: and the short name "
                    f"of an organisation, not {role!r}"
                )
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.issuer is not None and not self.client_id:
            raise ValueError("issuer needs client_id")
        if not self.passwords and self.issuer is None:
            raise ValueError("without passwords, issuer is needed")
        return self

    def roles_of(self, groups: tuple[str, ...]) -> list[tuple[Role, str | None]]:
        """Return the roles of these groups, the strongest first, with the short names of organisations.

        Equal roles are in the order of the settings: providers promise none for groups.
        """
        found = [_role(role) for group, role in self.roles.items() if group in groups]
        return sorted(found, key=lambda each: _ORDER.index(each[0]))


def _role(text: str) -> tuple[Role, str | None]:
    if text.startswith(_PARTNER):
        return Role.PARTNER, text.removeprefix(_PARTNER).strip()
    return Role(text), None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
