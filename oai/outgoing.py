"""The sections of the settings about outgoing messages: mail, webhooks, hooks."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_MAIL_ADDRESS: Final = rf"^{_ATOM}(\.{_ATOM})*@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$"
"""A mail address in ASCII without quotation marks (RFC 5321, section 4.1.2), which every server accepts."""
_DOMAIN = r"^[a-z0-9-]+(\.[a-z0-9-]+)*$"
_WEB_ADDRESS = r"^https?://[^\s/]\S*$"


def is_mail_address(text: str) -> bool:
    """Return whether mail can be sent to the text as an address."""
    return re.fullmatch(_MAIL_ADDRESS, text) is not None


def mail_link(address: str, **fields: str) -> str:
    """Return a `mailto:` link; what follows a `?` in the address is part of it, not another recipient."""
    given = "&".join(f"{name}={quote(value)}" for name, value in fields.items())
    return f"mailto:{quote(address, safe='@')}" + (f"?{given}" if given else "")


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MailSettings(_Section):
    """Mail server for notifications."""

    host: str | None = Field(
        None, min_length=1, description="Host name of the mail server; without one, no mail is sent."
    )
    port: int = Field(
        587,
        ge=1,
        le=65_535,
        description="Port of the mail server: usually 587, 465 for `tls`, 25 for `none`.",
    )
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="How the connection is encrypted; Zatva never falls back to weaker encryption.",
    )
    user: str | None = Field(None, description="User name, if the server requires one.")
    password: SecretStr | None = Field(None, description="Password; `password_file` is safer.")
    password_file: Path | None = Field(None, description="File whose first line is the password.")
    sender: Annotated[str, Field(pattern=_MAIL_ADDRESS)] = Field(
        "zatva@localhost.localdomain", description="Sender address (From) of the messages."
    )
    timeout: float = Field(30, gt=0, le=600, description="Seconds to wait for the server's answer.")
    subject_prefix: str = Field(
        "[Zatva]",
        max_length=40,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="Beginning of each subject, by which recipients recognise and filter the messages.",
    )
    per_hour: int = Field(
        60,
        ge=0,
        description="Maximum messages for each organisation and hour; others wait (0: no limit). Messages "
        "of the institution's own rules are not limited.",
    )
    allowed_domains: tuple[Annotated[str, Field(pattern=_DOMAIN)], ...] = Field(
        (),
        description="Domains whose addresses partners may enter without confirmation by the recipient, "
        "such as `library.example`.",
    )


class WebhookSettings(_Section):
    """Webhooks: notifications and hooks sent to web addresses."""

    secret: SecretStr | None = Field(
        None,
        description="Key for signing hooks, and webhooks that have no key of their own; "
        "`secret_file` is safer.",
    )
    secret_file: Path | None = Field(None, description="File whose first line is the signing key.")
    private_networks: bool = Field(
        default=False, description="Whether webhooks may go to addresses outside the public internet."
    )
    timeout: float = Field(20, gt=0, le=600, description="Seconds to wait for the receiver's answer.")
    overlap_hours: float = Field(
        72,
        ge=0,
        le=8760,
        description="Hours for which posts are signed with both keys after a webhook's key was replaced.",
    )


class ServiceSettings(_Section):
    """A chat or push service for notifications, by its Apprise address, which holds secrets."""

    name: str = Field(min_length=1, max_length=60, description="Name by which rules refer to it.")
    url: SecretStr | None = Field(None, description="Apprise address; `url_file` is safer.")
    url_file: Path | None = Field(None, description="File whose first line is the address.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.url is None) == (self.url_file is None):
            raise ValueError(f"service {self.name!r}: give either url or url_file, not both and not neither")
        return self


class HookSettings(_Section):
    """A hook that runs when a harvest has ended: a command, or a web address to post to."""

    name: str = Field(min_length=1, description="Name in lists and logs.")
    command: tuple[str, ...] = Field((), description="Program and its arguments; no shell is used.")
    url: Annotated[str, Field(pattern=_WEB_ADDRESS)] | None = Field(
        None, description="Web address to post to."
    )
    repository_id: int | None = Field(None, description="Run only after harvests of this repository.")
    timeout: float = Field(300, gt=0, le=86_400, description="Seconds that one run may take.")
    tries: int = Field(5, ge=1, le=50, description="Number of attempts in total.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError(f"hook {self.name!r}: give either command or url, not both and not neither")
        return self
