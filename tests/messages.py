"""Collects every translatable text of the dashboard and updates the catalogues.

    python -m tests.messages

New messages are added to `web/translations/*.po` without a translation, unused ones are removed, and existing
translations are kept. `tests/web/test_translations.py` lists what is missing.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from harvester.harvest.approval import HoldState
from harvester.harvest_plan import PARAMETERS
from harvester.probing import report
from harvester.probing import report as doctor
from harvester.probing.case import SUBJECTS
from harvester.vocabulary import RunStatus
from manager.jobs.reasons import SENTENCES
from manager.models import RecurringState
from manager.notices.models import UnsentReason
from oai.actions import VERB_TITLES
from oai.audit import KIND_TITLES
from oai.languages import LANGUAGES, SOURCE
from oai.rights import Role
from oai.settings import Settings
from oai.settings_view import settings_in_effect
from provider.checking.checks import CHECKS
from web.site import formats
from web.site.i18n import CATALOGUES

_WEB: Final = CATALOGUES.parent
_ROOT: Final = _WEB.parent
_SPEAKING: Final = {
    "harvester/bibliographic/condition_trial.py": "UsageError",
    "harvester/bibliographic/conditions.py": "UsageError",
    "harvester/bibliographic/filtering_sets.py": "UsageError",
    "harvester/bibliographic/sources.py": "UsageError UnknownFormatError",
    "harvester/access.py": "SelectionError",
    "harvester/recognition.py": "UsageError",
    "harvester/probing/report.py": "translate",
    "harvester/client/transport.py": "UsageError",
    "harvester/locks.py": "UsageError RepositoryLockedError",
    "harvester/protocols.py": "UsageError",
    "harvester/repositories.py": "UsageError FolderTakenError",
    "harvester/rule_lab/examples.py": "translate",
    "harvester/rule_lab/files.py": "UsageError ZatvaError",
    "harvester/rule_lab/rows.py": "ExpressionError",
    "harvester/rule_lab/samples.py": "UsageError",
    "harvester/rule_lab/trial.py": "ZatvaError",
    "harvester/rule_lab/versions.py": "UsageError ConflictError",
    "harvester/rules/filters.py": "fault:2",
    "harvester/rules/normalisation.py": "fault:2",
    "harvester/rules/rule_expressions.py": "ExpressionError TooMuchError",
    "harvester/rules/rule_limits.py": "TooMuchError",
    "harvester/rules/rule_files.py": "RuleFileError:2 ZatvaError fault:2",
    "harvester/harvest/approval.py": "UsageError",
    "harvester/harvest/checkpoint.py": "RepositoryBusyError",
    "harvester/harvest/refetch.py": "UsageError",
    "harvester/store/changes.py": "UsageError",
    "manager/schedules/frequency.py": "UsageError",
    "manager/notices/webhooks.py": "UsageError",
    "manager/notices/addresses.py": "UsageError",
    "manager/notices/rules.py": "UsageError",
    "manager/notices/digests.py": "UsageError",
    "manager/notices/mutes.py": "UsageError ConflictError",
    "manager/rule_access.py": "RuleAccessError",
    "manager/schedules/limits.py": "LimitError",
    "manager/schedules/of_repository.py": "UsageError",
    "manager/schedules/plan.py": "UsageError",
    "manager/store_audits.py": "UsageError",
    "provider/aggregate/identifiers.py": "UsageError",
    "provider/aggregate/sources.py": "UsageError",
    "provider/holdings/rules.py": "UsageError",
    "provider/holdings/collections.py": "UsageError",
    "provider/holdings/lookup.py": "UsageError",
    "provider/holdings/selection.py": "UsageError",
    "provider/holdings/sets.py": "UsageError",
    "provider/holdings/takedowns.py": "UsageError ConflictError",
    "provider/export/prepared_files.py": "UsageError",
    "provider/export/selection.py": "UsageError",
    "provider/indexing/browsing.py": "UsageError",
    "provider/titles/address_lists.py": "EntryError",
    "provider/titles/cells.py": "EntryError",
    "provider/titles/entries.py": "UsageError EntryError",
    "provider/titles/collections.py": "Phrase",
    "provider/titles/entry_errors.py": "Phrase",
    "provider/titles/import_warnings.py": "Phrase",
    "provider/titles/import_steps.py": "UsageError PlanChangedError NeedsApprovalError",
    "provider/titles/imports.py": "Phrase",
    "provider/titles/seeder.py": "EntryError",
}
"""Modules whose errors are shown on pages, and the calls that receive their texts, first or at `:place`."""
_METHODS: Final = [("**.py", "python"), ("templates/**.html", "jinja2")]
_OPTIONS: Final = {
    "**.py": {},
    "templates/**.html": {"trimmed": "true", "newstyle_gettext": "true", "silent": "false"},
}
_KEYWORDS: Final = {"_": None, "gettext": None, "mark": None, "ngettext": (1, 2)}
_PLACES: Final = re.compile(r"%\((\w+)\)[sd]")
_WAYS: Final = ("link", "password", "proxy", "token")


@functools.cache
def gathered() -> Catalog:
    """Return every message in the code and the templates, and those from tables; callers only read it."""
    catalog = Catalog(charset="utf-8", fuzzy=False)
    found = extract_from_dir(
        str(_WEB), method_map=_METHODS, options_map=_OPTIONS, keywords=_KEYWORDS, comment_tags=()
    )
    for _file, _line, message, _comments, _context in found:
        catalog.add(message)
    for text in _of_other_parts():
        catalog.add(text)
    for text in (
        *SENTENCES.values(),
        *_table_words(),
        *_doctors_words(),
        *VERB_TITLES.values(),
        *KIND_TITLES.values(),
        *(line.about for line in settings_in_effect(Settings.model_construct())),
        *(text for check in CHECKS for text in (check.title, check.advice)),
    ):
        if text and not text.startswith("%(text)"):
            catalog.add(text)
    return catalog


def _of_other_parts() -> Iterator[str]:
    """Yield the texts of lower packages that pages show as errors, and those of letters."""
    for name, keyword in _SPEAKING.items():
        words = (call.partition(":") for call in ("Phrase", *keyword.split()))
        positions = {call: int(place or 1) for call, _, place in words}
        # Babel would take strings inside f-strings for messages on Python 3.12 and newer.
        for call in ast.walk(ast.parse((_ROOT / name).read_bytes())):
            if isinstance(call, ast.Call):
                called = getattr(call.func, "id", getattr(call.func, "attr", ""))
                match call.args[positions.get(called, 0) - 1 :][:1] if called in positions else ():
                    case [ast.Constant(value=str(message))]:
                        yield message


def _doctors_words() -> set[str]:
    wordings = doctor.SENTENCES.values()
    words = {wording.text for wording in wordings} | {wording.advice for wording in wordings}
    return words | set(SUBJECTS.values()) | {*report.METHODS, *report.LEVELS, *report.OWN_VALUES}


def places(text: str) -> set[str]:
    """Return the names of a message's placeholders."""
    return set(_PLACES.findall(text))


def update(language: str) -> None:
    """Update the catalogue of a language."""
    file = CATALOGUES / f"{language}.po"
    fresh = gathered()
    old = Catalog(locale=language)
    if file.exists():
        with file.open("rb") as stream:
            old = read_po(stream, locale=language)
    catalog = Catalog(locale=language, project="Zatva", charset="utf-8", fuzzy=False)
    for message in sorted(fresh, key=lambda message: _key(message.id)):
        if message.id:
            known = old.get(message.id)
            catalog.add(message.id, known.string if known is not None else None)
    with file.open("wb") as stream:
        write_po(stream, catalog, width=110, omit_header=False, sort_output=False)
    _settle_header(file)


def _key(found: object) -> str:
    return str(found[0] if isinstance(found, tuple) else found)


def _settle_header(file: Path) -> None:
    """Remove dates and names from the header, which would differ from one run to the next."""
    text = file.read_text(encoding="utf-8")
    dropped = ("POT-Creation-Date", "PO-Revision-Date", "Last-Translator", "Language-Team", "Generated-By")
    lines = [line for line in text.splitlines() if not line.startswith(tuple(f'"{name}' for name in dropped))]
    start = next(number for number, line in enumerate(lines) if line.startswith("msgid"))
    file.write_text("\n".join(lines[start:]).rstrip() + "\n", encoding="utf-8")


def _table_words() -> set[str]:
    """Return words in tables of the code, which are translated where they are shown."""
    looks = set(formats._LOOKS)  # noqa: SLF001 the words are its keys
    holds = {state.value for state in HoldState}
    runs = {status.value for status in RunStatus}
    schedules = {state.word for state in RecurringState}
    parameters = {text for one in PARAMETERS for text in (one.label, one.hint)}
    roles, reasons = {role.value for role in Role}, {reason.value for reason in UnsentReason}
    return looks | holds | parameters | runs | schedules | roles | reasons | set(_WAYS)


if __name__ == "__main__":
    for code in LANGUAGES:
        if code != SOURCE:
            update(code)
