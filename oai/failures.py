"""Failures as data: a code and facts, from which texts are made where users read them.

Rows store the code and the facts besides the technical reason in English; programs compare codes and
never parse text. The explanation of each code, and what the user can do, is in `translations/` for each
language; `explained` returns it.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from oai.failure_codes import FailureCode

__all__ = [
    "SENTENCES",
    "CodedText",
    "Explanation",
    "Failure",
    "FailureCode",
    "explained",
    "failure_columns",
    "failure_in",
]

_TRANSLATIONS: Final = Path(__file__).parent / "translations"
_TIMES: Final = frozenset({"at", "first", "last", "until", "end"})
"""Facts that are times."""
_UNKNOWN: Final = "?"

_NO_RUNS: Final = ("record_", "archive_", "store_", "export_")
"""Beginnings of codes that no run fails with."""
_CODES_OF_KINDS: Final = {
    "name": "host_unknown",
    "refused": "connection_refused",
    "certificate": "tls",
    "timeout": "timeout",
    "disconnected": "disconnected",
    "redirect": "redirect",
    "private": "address_private",
    "gone": "http_gone",
    "forbidden": "http_forbidden",
    "server": "http_server_error",
    "http": "http_status",
    "busy": "server_busy waiting_time",
    "not oai": "not_oai_pmh",
    "broken": "malformed_answer http_invalid",
    "argument": "bad_request",
    "token": "bad_token list_in_circles no_new_records empty_pages",
    "format": "format_not_offered",
    "set": "no_sets set_not_listed set_unchecked",
    "invalid": "invalid",
    "large": "answer_bytes answer_ratio part_bytes part_elements part_depth memory",
    "missing": "records_missing list_ended_abruptly list_ended_by_error list_unconfirmed tokens_refused"
    " list_partly_read",
    "records": "records_refused",
    "held": "held",
    "released": "released",
    "rules": "rules",
    "plan": "request_invalid",
    "running": "repository_busy repository_locked",
    "interrupted": "interrupted",
    "database": "database",
    "disk": "disk_full disk_floor disk_inodes",
    "fault": "internal_error",
    "process": "process_lost process_not_started process_signalled process_exited process_not_ready",
    "other": (
        "address_invalid address_moved repository_error recovery_time list_shortened list_repeated"
        " requests_spent records_undated records_filtered records_not_valid quota_records quota_bytes"
        " place_unusable other job_stopped job_paused job_restarted manager_ended process_stopped"
        " process_paused process_deleted process_killed process_restarted process_ended_with_manager"
        " import_lost run_skipped run_missed schedule_failing schedule_over waiting rules_changed"
        " answer_in_parts list_continued list_restarted"
    ),
}
_KINDS: Final[Mapping[FailureCode, str]] = {
    FailureCode(code): kind for kind, codes in _CODES_OF_KINDS.items() for code in codes.split()
} | {code: "other" for code in FailureCode if code.startswith(_NO_RUNS)}
"""`failure_kind` in mails, webhooks and hooks; it is coarser than the code and must not change."""

# Numbers that serve as names are written without thousands separators.
_SEPARATORS: Final = {"cs": "\N{NO-BREAK SPACE}", "sk": "\N{NO-BREAK SPACE}"}
"""Of thousands, where it is no comma."""
_NAMES: Final = frozenset({"number", "signal", "exit_code", "schedule", "status"})
SENTENCES: Final[Mapping[FailureCode, str]] = {
    FailureCode.ANSWER_BYTES: ("the answer is larger than %(limit)s bytes; to accept it, raise %(setting)s"),
    FailureCode.ANSWER_RATIO: (
        "the answer unpacks from %(sent)s to more than %(unpacked)s bytes, over %(limit)s times its"
        " size; to accept it, raise %(setting)s"
    ),
    FailureCode.PART_BYTES: (
        "a part of the answer that begins at byte %(offset)s is larger than %(limit)s bytes; to accept"
        " it, raise %(setting)s"
    ),
    FailureCode.PART_ELEMENTS: (
        "a part of the answer that begins at byte %(offset)s has more than %(limit)s elements; to"
        " accept it, raise %(setting)s"
    ),
    FailureCode.PART_DEPTH: (
        "elements are nested more than %(limit)s deep in a part of the answer that begins at byte"
        " %(offset)s; to accept it, raise %(setting)s"
    ),
    FailureCode.MEMORY: (
        "reading the answer takes more than %(limit)s bytes of memory; to allow it, raise %(setting)s"
    ),
    FailureCode.EMPTY_PAGES: (
        "%(pages)s consecutive pages with a resumption token have no records; to continue "
        "longer, raise %(setting)s"
    ),
    FailureCode.NO_NEW_RECORDS: (
        "%(pages)s consecutive pages have only records that the list already had; to continue "
        "longer, raise %(setting)s"
    ),
    FailureCode.LIST_IN_CIRCLES: (
        "the list is circular: the resumption token %(token)s came a second time with the same records"
    ),
    FailureCode.RECOVERY_TIME: (
        "working around faults of the repository took more than %(limit)s seconds; to allow more, raise"
        " %(setting)s"
    ),
    FailureCode.WAITING_TIME: (
        "the repository asked to wait for more than %(limit)s seconds in total without sending "
        "a page; to wait longer, raise %(setting)s"
    ),
    FailureCode.DISK_FLOOR: (
        "the disk of %(folder)s has %(free)s bytes free, less than the %(floor)s that harvests leave;"
        " free some space, or lower %(setting)s"
    ),
    FailureCode.DISK_INODES: (
        "the disk of %(folder)s has %(free)s inodes free, less than the %(floor)s that harvests leave;"
        " remove files (`df -i` shows the inodes), or lower %(setting)s"
    ),
    FailureCode.QUOTA_RECORDS: (
        "organisation '%(organisation)s' may store %(limit)s records and has %(stored)s; the next page"
        " has more new ones than fit; an administrator can raise the limit"
    ),
    FailureCode.QUOTA_BYTES: (
        "organisation '%(organisation)s' may store %(limit)s bytes and has %(stored)s; the next page"
        " needs more than is left; an administrator can raise the limit"
    ),
    FailureCode.JOB_STOPPED: "the job was stopped after a page; the next harvest resumes there",
    FailureCode.JOB_PAUSED: "the job was paused after a page; it resumes there when it is continued",
    FailureCode.JOB_RESTARTED: (
        "the harvest made no progress and was ended after a page; another process resumes it there"
    ),
    FailureCode.MANAGER_ENDED: "the manager ended, and the harvest with it; the next manager resumes it",
    FailureCode.PROCESS_STOPPED: (
        "the job was stopped, and process %(number)s on host '%(host)s' did not finish its page in time"
    ),
    FailureCode.PROCESS_PAUSED: (
        "the job was paused, and process %(number)s on host '%(host)s' did not finish its page in time"
    ),
    FailureCode.PROCESS_DELETED: ("the job was deleted, so process %(number)s on host '%(host)s' was ended"),
    FailureCode.PROCESS_KILLED: "the job was killed, and process %(number)s on host '%(host)s' with it",
    FailureCode.PROCESS_RESTARTED: (
        "process %(number)s on host '%(host)s' made no progress and was ended; another process "
        "resumes the harvest"
    ),
    FailureCode.PROCESS_ENDED_WITH_MANAGER: (
        "the manager ended, and process %(number)s on host '%(host)s' with it; the next "
        "manager resumes the harvest"
    ),
    FailureCode.PROCESS_LOST: "process %(number)s on host '%(host)s' and the worker that ran it are lost",
    FailureCode.PROCESS_NOT_STARTED: "the harvest could not be started on host '%(host)s'",
    FailureCode.PROCESS_SIGNALLED: "process %(number)s on host '%(host)s' was ended by signal %(signal)s",
    FailureCode.PROCESS_EXITED: (
        "process %(number)s on host '%(host)s' ended with exit code %(exit_code)s and wrote no history"
    ),
    FailureCode.PROCESS_NOT_READY: (
        "process %(number)s on host '%(host)s' could not use the database or a setting (exit code"
        " %(exit_code)s)"
    ),
    FailureCode.IMPORT_LOST: "the process ended before the import was complete",
    FailureCode.RUN_SKIPPED: "%(times)s: skipped, because the previous run was still running",
    FailureCode.RUN_MISSED: "%(times)s: not started in time; one run makes up for all missed ones",
    FailureCode.SCHEDULE_FAILING: (
        "%(count)s runs in a row failed, the last one: %(reason)s; correct the cause, "
        "then run `zatva schedule resume %(schedule)s`"
    ),
    FailureCode.SCHEDULE_OVER: "the end date %(end)s was reached",
    FailureCode.STORE_DAMAGED: (
        "files of the store: %(missing)s missing, %(altered)s altered, %(stray)s stray"
    ),
    FailureCode.STORE_AUDIT_INCOMPLETE: ("the audit of the store did not finish: %(said)s"),
    FailureCode.EXPORT_EMPTY: ("%(selection)s: no captures that may be in the file; left out: %(left_out)s"),
    FailureCode.EXPORT_TOO_LARGE: (
        "the file would be larger than %(limit)s bytes; choose fewer captures, write it with `zatva"
        " provider export`, or raise %(setting)s"
    ),
    FailureCode.EXPORT_FOLDER_FULL: (
        "the prepared files together would be larger than %(limit)s bytes; remove some of them, or raise"
        " %(setting)s"
    ),
    FailureCode.EXPORT_DISK_FULL: (
        "the disk of %(folder)s has %(free)s bytes free, and %(floor)s must stay free; free some space"
    ),
    FailureCode.EXPORT_WITHDRAWN: (
        "documents in the file that may no longer be read: %(count)s; the file was removed"
    ),
    FailureCode.EXPORT_INCOMPLETE: "the file was not completed: %(said)s",
}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What failed, and the facts for its text; both are stored unchanged."""

    code: FailureCode
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Texts and integers, as in JSON."""

    @classmethod
    def stored(cls, code: str | None, facts: Mapping[str, Any] | None) -> Self | None:
        """Return the failure that a row stores; None if it has none, `OTHER` for a later version's code."""
        if code is None:
            return None
        known = code in set(FailureCode)
        return cls(code=FailureCode(code) if known else FailureCode.OTHER, facts=facts or {})

    @classmethod
    def from_json(cls, found: object) -> Self | None:
        """Return the failure from the output of `as_json`; None for anything else."""
        if not isinstance(found, dict) or not isinstance(found.get("code"), str):
            return None
        return cls.stored(found["code"], {name: value for name, value in found.items() if name != "code"})

    def as_json(self) -> dict[str, Any]:
        """Return the code and the facts as one object."""
        return {"code": self.code.value, **self.facts}

    @property
    def kind(self) -> str:
        """`failure_kind` in notifications, webhooks and hooks."""
        return _KINDS[self.code]

    @property
    def is_limit(self) -> bool:
        """Whether the failure is a limit that a setting can raise."""
        return "setting" in self.facts

    def sentence(self) -> str:
        """Return the technical reason in English, for rows, logs and exceptions.

        Two English texts exist per code because they have different readers: this one is for whoever
        mends the cause, and is stored, so it names processes and settings and does not change afterwards;
        that of `explained` is for users, and is made again for each reader, so a better wording also
        reaches old rows.
        """
        facts = _Shown({name: _shown(name, value) for name, value in self.facts.items()})
        return SENTENCES[self.code] % facts


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A failure explained without protocol terms."""

    what: str
    todo: str = ""
    who: str = ""
    """Who can act on it, for the reference; in English only."""


def explained(
    failure: Failure,
    language: str,
    show_time: Callable[[str], str] = str,
    *,
    fact: Callable[[str], str] = lambda _name: _UNKNOWN,
) -> Explanation:
    """Return what happened and what to do, in the language (`en`, `cs`, `sk`).

    `show_time` formats a time (ISO 8601, UTC) for the reader; `fact` returns the text for a fact that the
    failure lacks.
    """
    words = _words(language)[failure.code]

    def show(name: str, value: object) -> str:
        inner = Failure.from_json(value)
        if inner is not None:
            return explained(inner, language, show_time).what
        return (
            show_time(str(value)) if name in _TIMES else _shown(name, value, _SEPARATORS.get(language, ","))
        )

    facts = {name: show(name, value) for name, value in failure.facts.items()}
    if "first" in facts:
        facts["times"] = _times(failure, facts)
    shown = _Shown(facts, fact)
    return Explanation(what=words.what % shown, todo=words.todo % shown, who=words.who)


class CodedText(str):
    """A technical text that also has the failure that explains it to users."""

    __slots__ = ("failure",)
    failure: Failure | None

    def __new__(cls, text: str, failure: Failure | None = None) -> Self:
        """Return the text with its failure."""
        made = super().__new__(cls, text)
        made.failure = failure
        return made


def failure_in(text: str) -> Failure | None:
    """Return the failure of a `CodedText`; None for any other text."""
    return text.failure if isinstance(text, CodedText) else None


def failure_columns(failure: Failure | None) -> dict[str, Any]:
    """Return the values of the columns `failure_code` and `failure_facts`, which many tables have."""
    return {
        "failure_code": failure.code.value if failure else None,
        "failure_facts": dict(failure.facts) if failure else None,
    }


def _times(failure: Failure, facts: Mapping[str, str]) -> str:
    if failure.facts.get("count") == 1:
        return facts["first"]
    more = "≥ " if failure.facts.get("more") else ""
    return f"{more}{facts['count']} ({facts['first']} – {facts['last']})"  # noqa: RUF001 a dash between times


@cache
def _words(language: str) -> Mapping[str, Explanation]:
    text = (_TRANSLATIONS / f"{language}.toml").read_text(encoding="utf-8")
    return {code: Explanation(**words) for code, words in tomllib.loads(text).items()}


class _Shown(dict[str, str]):
    """Facts as displayed."""

    def __init__(
        self, facts: Mapping[str, str], missing: Callable[[str], str] = lambda _name: _UNKNOWN
    ) -> None:
        super().__init__(facts)
        self._missing = missing

    def __missing__(self, name: str) -> str:
        return self._missing(name)


def _shown(name: str, value: object, separator: str = ",") -> str:
    if isinstance(value, int) and name not in _NAMES:
        return f"{value:,}".replace(",", separator)
    return repr(value) if value == "" else str(value)
