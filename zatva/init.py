"""`zatva init` and `zatva settings`: the settings file, and what is in effect.

`init` also creates the data folder, the tables and an administrator.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from oai.cli import Invocation
from oai.console import checked_output
from oai.errors import UsageError
from oai.private_files import open_private
from oai.settings import Settings, settings_file
from oai.settings_view import settings_in_effect

_HEADING = (
    "# Settings of Zatva. Each line shows a default; to change one, remove the # in front of it.\n# "
    "Environment variables take precedence: ZATVA_PROVIDER__RECORDS_PER_ANSWER=100, "
    "ZATVA_DATA=/srv/zatva.\n"
)


def init(invocation: Invocation) -> None:
    """Write the settings file, create the data folder and the tables, and print a sign-in link.

    A data folder that is given as an option is written to the file.
    """
    # The dashboard takes most of the time to import, and `zatva settings` does not need it.
    from web.auth.sign_in import LOCAL_DASHBOARD, make_link  # noqa: PLC0415

    path = checked_output(settings_file(invocation.arguments.config))
    if path.exists() and not invocation.arguments.force:
        raise UsageError(f"{path} already exists; to overwrite it with the defaults, use --force")
    content = example()
    if invocation.arguments.data:
        # Without it, the next command would use another folder than the one created here.
        data = json.dumps(str(invocation.settings.data), ensure_ascii=False)
        content = content.replace("\n# data =\n", f"\ndata = {data}\n", 1)
    base_url = invocation.settings.web.base_url or LOCAL_DASHBOARD
    with invocation.transaction() as session:
        link = make_link(session, invocation.settings, "admin", base_url, create_administrator=True)
    # The embedded server has created it, with the mode that its account needs.
    invocation.settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Last, so that the command can be repeated after a failure. Passwords may be added to the file.
    with open_private(path) as file:
        file.write(content.encode())
    invocation.console.result(
        {"settings": path, "data": invocation.settings.data, "link": link},
        f"settings   {path}\ndata       {invocation.settings.data}\n"
        f"sign in    {link}   (once, after `zatva serve`; with --web-port, put that port into it)",
    )


def example() -> str:
    """Return the text of `zatva.example.toml`: every setting with its meaning and its default."""
    return "\n".join([_HEADING, *_section(Settings)]) + "\n"


def _section(model: type[BaseModel], name: str = "") -> Iterator[str]:
    nested: list[tuple[str, type[BaseModel]]] = []
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            nested.append((key, field.annotation))
        else:
            yield from _setting(key, field)
    for key, part in nested:
        yield f"[{name}{key}]"
        yield f"# {(part.__doc__ or '').strip()}"
        yield ""
        yield from _section(part, f"{name}{key}.")


def _setting(key: str, field: FieldInfo) -> Iterator[str]:
    words = [field.description or ""]
    choices = [str(choice) for choice in get_args(field.annotation) if isinstance(choice, str)]
    if choices:
        words.append(f"One of {', '.join(choices)}.")
    yield f"# {' '.join(filter(None, words))}"
    default = field.default
    if default is None or field.default_factory is not None:
        yield f"# {key} ="
    elif isinstance(default, tuple):
        yield f"# {key} = {json.dumps(list(default))}"
    else:
        yield f"# {key} = {json.dumps(default)}"
    yield ""


def show_settings(invocation: Invocation) -> None:
    """Print every setting with its value and source; with `--changed`, leave out the defaults."""
    changed = invocation.arguments.changed
    rows = [asdict(one) for one in settings_in_effect(invocation.settings) if one.source or not changed]
    columns = {"name": "Setting", "value": "Value", "source": "From"}
    invocation.console.table(rows, columns, empty="all settings have their defaults")
