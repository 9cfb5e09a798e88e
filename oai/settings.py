"""One frozen settings object, read once at the entry point from `zatva.toml` and `ZATVA_…` variables.

An environment variable wins over the file. Sections are joined with two underscores:
`ZATVA_PROVIDER__RECORDS_PER_ANSWER=200` is `records_per_answer` in the file's `[provider]`.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import platformdirs
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from oai.errors import SettingsError

CONFIG_VARIABLE = "ZATVA_CONFIG"

# As the oai-identifier schema has it: at least two labels, the first of which begins with a letter.
_DOMAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9\-]*(?:\.[A-Za-z0-9][A-Za-z0-9\-]*)+")


def default_data_folder() -> Path:
    """Where the data goes when nobody says: `/var/lib/zatva` for root, else the user's data folder."""
    if os.name == "posix" and os.geteuid() == 0:
        return Path("/var/lib/zatva")
    return platformdirs.user_data_path("zatva")


def _host_name(value: str) -> str:
    if not _DOMAIN_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a domain name that begins with a letter, as 'webarchiv.example'")
    return value


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LogSettings(_Section):
    """What is logged, and how it is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least that is logged."
    )
    format: Literal["console", "json"] = Field(
        "console", description="For people, or one JSON object a line."
    )


class ProviderSettings(_Section):
    """The OAI-PMH data provider."""

    repository_name: str = Field("Web archive", min_length=1, description="repositoryName in Identify.")
    admin_emails: tuple[Annotated[str, Field(pattern=r"^\S+@(\S+\.)+\S+$")], ...] = Field(
        ("webarchive@localhost.localdomain",),
        min_length=1,
        description="adminEmail in Identify; one or more.",
    )
    namespace: Annotated[str, AfterValidator(_host_name)] = Field(
        "webarchive.localdomain", description="Domain name in identifiers: `oai:<namespace>:<key>`."
    )
    base_url: str | None = Field(
        None,
        pattern=r"^https?://\S+$",
        description="The base URL as the world sees it; without it, the address that is listened on.",
    )
    records_per_answer: int = Field(200, ge=1, le=10_000, description="Records in a ListRecords answer.")
    headers_per_answer: int = Field(500, ge=1, le=50_000, description="Headers in a ListIdentifiers answer.")
    sets_per_answer: int = Field(500, ge=1, le=50_000, description="Sets in a ListSets answer.")
    token_hours: float = Field(
        48, gt=0, le=8760, description="How long a resumption token is good, in hours."
    )
    publish_margin: float = Field(
        3, ge=1, le=600, description="Seconds by which new records are dated ahead of the clock."
    )
    threads: int = Field(4, ge=1, le=64, description="Database threads of one provider process.")
    waiting_room: int = Field(64, ge=0, le=10_000, description="Requests that may wait for a thread.")
    wait_seconds: float = Field(10, gt=0, le=300, description="How long a request may wait for a thread.")
    statement_seconds: float = Field(
        30, gt=0, le=3600, description="Longest time for one database statement."
    )


class HarvesterSettings(_Section):
    """The harvester."""

    user_agent: str = Field(
        "Zatva/0.1 (OAI-PMH harvester)", min_length=1, description="Sent with each request."
    )
    contact: str | None = Field(None, description="E-mail address sent as `From` with each request.")
    timeout: float = Field(120, gt=0, le=3600, description="Seconds for one request.")
    retries: int = Field(5, ge=0, le=100, description="Further tries of a request that failed.")
    max_wait: float = Field(3600, ge=0, description="Longest Retry-After to sit out, in seconds.")
    overlap: float = Field(60, ge=0, description="Seconds that an incremental harvest reaches back further.")
    files_per_directory: int = Field(5000, ge=1, description="Files in one directory of the store.")
    max_answer_bytes: int = Field(512 * 1024**2, ge=1024, description="Largest answer that is accepted.")


class ManagerSettings(_Section):
    """The manager and its workers."""

    tick_seconds: float = Field(2, gt=0, le=3600, description="How often the tables are polled.")
    concurrency: int = Field(4, ge=1, le=1000, description="Harvests that one worker runs at a time.")
    retry_minutes: float = Field(5, gt=0, description="First delay before a vanished harvest runs again.")
    retries: int = Field(8, ge=0, le=50, description="Further tries of a harvest that vanished.")
    stop_seconds: float = Field(20, gt=0, description="How long a harvest may take to end when asked to.")
    lost_seconds: float = Field(
        30,
        gt=0,
        description="Silence after which a worker counts as lost; it gives a sign three times as often.",
    )


class WebSettings(_Section):
    """The dashboard."""

    base_url: str | None = Field(
        None, pattern=r"^https?://\S+$", description="The dashboard's address as its users see it."
    )
    session_hours: float = Field(12, gt=0, description="How long a sign-in lasts, in hours.")
    link_minutes: float = Field(30, gt=0, description="How long a one-time sign-in link is good, in minutes.")


class Settings(BaseSettings):
    """Everything that can be set. Read it with `load_settings`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="ZATVA_", env_nested_delimiter="__"
    )
    toml_file: ClassVar[Path | None] = None

    data: Path = Field(
        default_factory=default_data_folder,
        description="Folder for the embedded database, harvested files and state.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL server, `postgresql://user:password@host/name`; else the embedded one.",
    )
    log: LogSettings = LogSettings()
    provider: ProviderSettings = ProviderSettings()
    harvester: HarvesterSettings = HarvesterSettings()
    manager: ManagerSettings = ManagerSettings()
    web: WebSettings = WebSettings()

    @field_validator("database_url")
    @classmethod
    def _empty_is_none(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value() else None

    @property
    def store(self) -> Path:
        """The folder under which relative base directories of repositories lie."""
        return self.data / "store"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over variables, and those over the file."""
        del dotenv_settings, file_secret_settings
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        if cls.toml_file is not None:
            sources += (TomlConfigSettingsSource(settings_cls, cls.toml_file),)
        return sources


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:  # noqa: ANN401 any setting's type
    """Read the settings from `config`, or `$ZATVA_CONFIG`, or `./zatva.toml` where there is one.

    `overrides` win over everything. Raises SettingsError that names each wrong setting, what was found and
    what is allowed.
    """
    file = _config_file(config)
    from_file: type[Settings] = type("Settings", (Settings,), {"toml_file": file, "__module__": __name__})
    try:
        return from_file(**overrides)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
    except ValidationError as error:
        raise SettingsError(_in_words(error, file)) from None


def _config_file(config: Path | None) -> Path | None:
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        if not named.is_file():
            raise SettingsError(f"{named}: no such settings file; give another or run `zatva init`")
        return named
    here = Path("zatva.toml")
    return here if here.is_file() else None


def _in_words(error: ValidationError, file: Path | None) -> str:
    lines = []
    for fault in error.errors(include_url=False):
        name = ".".join(map(str, fault["loc"]))
        variable = "ZATVA_" + "__".join(map(str, fault["loc"])).upper()
        found = "" if fault["type"] in {"missing", "extra_forbidden"} else f", found {fault['input']!r}"
        lines.append(f"setting {name!r} ({file or 'no file'}, or {variable}): {fault['msg']}{found}")
    return "\n".join(lines)
