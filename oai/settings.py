"""One frozen settings object, read once at the entry point from `zatva.toml` and `ZATVA_…` variables.

An environment variable wins over the file. Sections are joined with two underscores:
`ZATVA_PROVIDER__RECORDS_PER_ANSWER=200` is `records_per_answer` in the file's `[provider]`.
"""

import os
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from oai.errors import SettingsError
from oai.outgoing import MailSettings, WebhookSettings
from oai.sections import (
    HarvesterSettings,
    InteractiveSettings,
    LogSettings,
    ManagerSettings,
    ProviderSettings,
    WebSettings,
)

CONFIG_VARIABLE = "ZATVA_CONFIG"


def default_data_folder() -> Path:
    """Where the data goes when nobody says: `/var/lib/zatva` for root, else the user's data folder."""
    if os.name == "posix" and os.geteuid() == 0:
        return Path("/var/lib/zatva")
    return platformdirs.user_data_path("zatva")


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
        description="PostgreSQL server, `postgresql://user:password@host/name`; without it, the embedded "
        "server is used.",
    )
    log: LogSettings = LogSettings()
    provider: ProviderSettings = ProviderSettings()
    harvester: HarvesterSettings = HarvesterSettings()
    manager: ManagerSettings = ManagerSettings()
    web: WebSettings = WebSettings()
    mail: MailSettings = MailSettings()
    webhooks: WebhookSettings = WebhookSettings()

    @field_validator("database_url")
    @classmethod
    def _empty_is_none(cls, value: SecretStr | None) -> SecretStr | None:
        return value if value is not None and value.get_secret_value() else None

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes, as the class that they know: `load_settings` makes one for each file."""
        return _rebuilt, (dict(self),)

    @property
    def store(self) -> Path:
        """The folder under which relative base directories of repositories lie."""
        return self.data / "store"

    @property
    def guarded(self) -> "Settings":
        """The settings for asking at addresses that users typed, and for what that leads to.

        Unless `web.private_addresses` allows it, such requests do not leave the public internet, whatever a
        name or a redirect leads to: nobody reads this machine's own services, or its neighbours', through us.
        """
        allowed = self.web.private_addresses and self.harvester.private_addresses
        harvester = self.harvester.model_copy(update={"private_addresses": allowed})
        return self.model_copy(update={"harvester": harvester})

    @property
    def interactive(self) -> "Settings":
        """The settings for asking a repository while a person waits: its answers have to be far smaller."""
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
        """The folder of XML Schemas that were fetched for validation."""
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
        """Arguments win over variables, and those over the file."""
        del dotenv_settings, file_secret_settings
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        if cls.toml_file is not None:
            sources += (TomlConfigSettingsSource(settings_cls, cls.toml_file),)
        return sources


def _rebuilt(values: dict[str, Any]) -> Settings:
    return Settings.model_construct(**values)


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
            raise SettingsError(f"{named}: no such settings file; give another file or run `zatva init`")
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
