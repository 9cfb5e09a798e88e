"""The sections of the settings about what we send: mail, webhooks, hooks."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

_ADDRESS = r"^[^\s@,<>]+@[^\s@,<>]+$"
_WEB_ADDRESS = r"^https?://[^\s/]\S*$"


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MailSettings(_Section):
    """The mail server that notices are sent through."""

    host: str | None = Field(None, min_length=1, description="The server; without one, no mail is sent.")
    port: int = Field(
        587, ge=1, le=65_535, description="Its port: 587 as a rule, 465 for `tls`, 25 for `none`."
    )
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="How the connection is encrypted. There is no falling back to a weaker one."
    )
    user: str | None = Field(None, description="User name, where the server asks for one.")
    password: SecretStr | None = Field(None, description="Password; better in `password_file`.")
    password_file: Path | None = Field(None, description="File whose first line is the password.")
    sender: Annotated[str, Field(pattern=_ADDRESS)] = Field(
        "zatva@localhost.localdomain", description="The From of what we send."
    )
    timeout: float = Field(30, gt=0, le=600, description="Seconds that the server may take to answer.")


class WebhookSettings(_Section):
    """Notices and hooks that go to a web address."""

    secret: SecretStr | None = Field(None, description="Key of the signature; better in `secret_file`.")
    secret_file: Path | None = Field(None, description="File whose first line is the key of the signature.")
    private_networks: bool = Field(
        default=False, description="Whether notices may go to addresses that are not on the public internet."
    )
    timeout: float = Field(20, gt=0, le=600, description="Seconds that the receiver may take.")


class HookSettings(_Section):
    """What is to happen when a harvest has ended: a command, or a web address to tell."""

    name: str = Field(min_length=1, description="Its name in lists and logs.")
    command: tuple[str, ...] = Field((), description="Program and arguments; there is no shell.")
    url: Annotated[str, Field(pattern=_WEB_ADDRESS)] | None = Field(
        None, description="Web address to post to."
    )
    repository_id: int | None = Field(None, description="Only after harvests of this repository.")
    timeout: float = Field(300, gt=0, le=86_400, description="Seconds that it may take.")
    tries: int = Field(5, ge=1, le=50, description="How often it is tried in all.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError(f"hook {self.name!r}: give either command or url")
        return self
