"""One frozen settings object, read once at the entry point from `zatva.toml` and `ZATVA_…` variables.

An environment variable wins over the file. Sections are joined with two underscores:
`ZATVA_PROVIDER__RECORDS_PER_ANSWER=200` is `records_per_answer` in the file's `[provider]`.
"""

import os
import tomllib
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import Field, PrivateAttr, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings import SettingsError as VariableError

from oai.errors import SettingsError
from oai.outgoing import MailSettings, WebhookSettings
from oai.sections import (
    HarvesterSettings,
    InteractiveSettings,
    LogSettings,
    ManagerSettings,
    OpenIdSettings,
    ProviderSettings,
    WebSettings,
)

CONFIG_VARIABLE = "ZATVA_CONFIG"
_file_to_read: ContextVar[Path | None] = ContextVar("file_to_read", default=None)
"""Not an attribute of a class for each file: making that class takes longer than reading the settings."""


def default_data_folder() -> Path:
    """Return the default data folder: `/var/lib/zatva` for root, otherwise the user's data folder.

    Raises SettingsError if the user has none.
    """
    if os.name == "posix" and os.geteuid() == 0:
        return Path("/var/lib/zatva")
    try:
        return platformdirs.user_data_path("zatva")
    except RuntimeError:  # the user has neither HOME nor an entry in the password file
        raise SettingsError("this user has no home folder; set ZATVA_DATA, --data or HOME") from None


class Settings(BaseSettings):
    """Everything that can be set. Read it with `load_settings`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="ZATVA_", env_nested_delimiter="__"
    )
    _toml_file: Path | None = PrivateAttr(default=None)
    _options: frozenset[str] = PrivateAttr(default=frozenset())

    data: Path = Field(
        default_factory=default_data_folder,
        description="Folder for the embedded database, harvested files (in `store`) and state. Default: "
        "/var/lib/zatva for root, otherwise the user's data folder, such as ~/.local/share/zatva.",
    )
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL server, `postgresql://user:password@host/name`; without it, the embedded "
        "server is used.",
    )
    embedded_replicas: int = Field(
        0,
        ge=0,
        le=20,
        description="Streaming replicas that the embedded server admits; 0 makes a first load faster.",
    )
    log: LogSettings = LogSettings()
    provider: ProviderSettings = ProviderSettings()
    harvester: HarvesterSettings = HarvesterSettings()
    manager: ManagerSettings = ManagerSettings()
    web: WebSettings = WebSettings()
    openid: OpenIdSettings = OpenIdSettings()
    mail: MailSettings = MailSettings()
    webhooks: WebhookSettings = WebhookSettings()

    @field_validator("data", mode="before")
    @classmethod
    def _is_filled(cls, value: object) -> object:
        if value == "":
            raise ValueError("may not be empty; write . for the current folder")
        return value

    @field_validator("database_url")
    @classmethod
    def _empty_is_none(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value() else None

    @model_validator(mode="after")
    def _has_return_address(self) -> "Settings":
        if self.openid.issuer is not None and self.web.base_url is None:
            raise ValueError("openid.issuer needs web.base_url, to which the provider sends users back")
        return self

    @property
    def toml_file(self) -> Path | None:
        """The settings file that was read."""
        return self._toml_file

    @property
    def options(self) -> frozenset[str]:
        """The settings that options of the command override."""
        return self._options

    @property
    def store(self) -> Path:
        """The folder that relative base directories of repositories are resolved against."""
        return self.data / "store"

    @property
    def exports(self) -> Path:
        """The folder of the files that are prepared for download."""
        return self.provider.export_folder or self.data / "exports"

    @property
    def guarded(self) -> "Settings":
        """Settings for requests to addresses that users entered, and for requests that follow from them.

        Unless `web.private_addresses` allows it, such requests stay on the public internet, whatever a
        name or redirect resolves to, so that they cannot read services of this machine or its network.
        """
        allowed = self.web.private_addresses and self.harvester.private_addresses
        harvester = self.harvester.model_copy(update={"private_addresses": allowed})
        return self.model_copy(update={"harvester": harvester})

    @property
    def interactive(self) -> "Settings":
        """Settings for requests while a user waits: with smaller limits for answers."""
        ours, web = self.harvester, self.web
        harvester = InteractiveSettings.model_construct(
            **{
                **ours.model_dump(),
                "max_answer_bytes": min(ours.max_answer_bytes, web.max_answer_bytes),
                "max_part_elements": min(ours.max_part_elements, web.max_part_elements),
                "max_memory": min(ours.max_memory, web.max_memory),
            }
        )
        return self.model_copy(update={"harvester": harvester})

    @property
    def schemas(self) -> Path:
        """The folder of XML Schemas downloaded for validation."""
        return self.data / "schemas"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: arguments override variables, and variables override the file."""
        del dotenv_settings, file_secret_settings
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        file = _file_to_read.get()
        if file is not None:
            sources += (InitSettingsSource(settings_cls, read_table(file)),)
        return sources


def read_text(file: Path) -> str:
    """Return the text of a settings file, with or without a byte order mark.

    Raises SettingsError if it is not UTF-8.
    """
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            f"{file}: not UTF-8 (byte {error.start + 1}, in line {line}); save it as UTF-8"
        ) from None


def read_table(file: Path) -> dict[str, Any]:
    """Return the content of a settings file, with its sections as they are spelt in the reference.

    Raises SettingsError if it is not TOML, or has a section twice, in different cases.
    """
    try:
        table = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
    spelt: dict[str, Any] = {}
    for name, value in table.items():
        if section_name(name) in spelt:
            raise SettingsError(f"{file}: {name!r} is there twice, in different cases; use {name.lower()!r}")
        spelt[section_name(name)] = value
    return spelt


def section_name(name: str) -> str:
    """Return a top-level name of a settings file as the reference spells it; it may have capital letters."""
    return name.lower() if name.lower() in Settings.model_fields else name


def load_settings(
    config: Path | None = None,
    *,
    may_be_missing: bool = False,
    **overrides: Any,  # noqa: ANN401 any setting's type
) -> Settings:
    """Load the settings from `config`, `$ZATVA_CONFIG`, or `./zatva.toml` if it exists.

    With `may_be_missing`, a named file need not exist. `overrides` take precedence over everything. Raises
    SettingsError, which names each invalid setting, the value found and what is allowed.
    """
    file = _existing_file(config, may_be_missing=may_be_missing)
    reading = _file_to_read.set(file)
    try:
        settings = Settings(**overrides)
    except VariableError as error:
        raise SettingsError(
            f'environment variables: {error}: {error.__cause__}; write a list as ["a", "b"], a table as '
            '{"a": "b"}'
        ) from None
    except ValidationError as error:
        from oai.settings_view import in_words  # noqa: PLC0415 only for an error; it imports this module

        raise SettingsError(in_words(error, file)) from None
    finally:
        _file_to_read.reset(reading)
    # Fields of their own could be set by the file.
    settings._toml_file, settings._options = file, frozenset(overrides)  # noqa: SLF001
    return settings


def settings_file(config: Path | None) -> Path:
    """Return the file that `config` or `$ZATVA_CONFIG` names, otherwise `./zatva.toml`; it may not exist."""
    return _named_file(config) or Path("zatva.toml")


def _named_file(config: Path | None) -> Path | None:
    return config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)


def _existing_file(config: Path | None, *, may_be_missing: bool) -> Path | None:
    file = settings_file(config)
    if file.is_file():
        return file
    if _named_file(config) is None or may_be_missing:
        return None
    if os.path.lexists(file):
        kind = "a folder" if file.is_dir() else "neither a file nor a link to one"
        raise SettingsError(f"{file} is {kind}; give another settings file")
    raise SettingsError(
        f"{file}: no such settings file; give another file, or write it with `zatva init --config {file}`"
    )
