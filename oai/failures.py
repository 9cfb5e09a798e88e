"""Failures as data: a code and facts, from which texts are made where users read them.

Rows store the code and the facts besides the technical reason in English; programs compare codes and
never parse text. The explanation of each code, and what the user can do, is in `translations/` for each
language; `explained` returns it.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

_TRANSLATIONS: Final = Path(__file__).parent / "translations"
_TIMES: Final = frozenset({"at", "first", "last", "until", "end"})
"""Facts that are times."""
_UNKNOWN: Final = "?"


class FailureCode(StrEnum):
    """What failed. The values are stored in rows and must not change; the comments list the facts of each."""

    # Connection to the repository. Facts: url, if the request is known.
    HOST_UNKNOWN = "host_unknown"
    CONNECTION_REFUSED = "connection_refused"
    TLS = "tls"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    """The connection was closed before the answer was complete."""
    REDIRECT = "redirect"
    ADDRESS_INVALID = "address_invalid"
    ADDRESS_PRIVATE = "address_private"
    # HTTP. Facts: url, status; seconds (or null) for a busy server.
    HTTP_GONE = "http_gone"
    HTTP_FORBIDDEN = "http_forbidden"
    HTTP_SERVER_ERROR = "http_server_error"
    HTTP_STATUS = "http_status"
    SERVER_BUSY = "server_busy"
    # Protocol. Facts: url; error and message, as the repository sent them.
    NOT_OAI_PMH = "not_oai_pmh"
    MALFORMED_ANSWER = "malformed_answer"
    BAD_REQUEST = "bad_request"
    BAD_TOKEN = "bad_token"  # noqa: S105 a resumption token
    FORMAT_NOT_OFFERED = "format_not_offered"
    NO_SETS = "no_sets"
    REPOSITORY_ERROR = "repository_error"
    """Another protocol error, or a code that the protocol does not define."""
    INVALID = "invalid"
    """A strict harvest found something that the protocol or the format does not allow."""
    # Limits. Facts: limit, setting, and those that the comment names.
    ANSWER_BYTES = "answer_bytes"
    """An answer exceeds the limit on bytes; facts: limit, setting."""
    ANSWER_RATIO = "answer_ratio"
    """A compressed answer exceeds the maximum compression ratio; facts: limit, sent, unpacked, setting."""
    PART_BYTES = "part_bytes"
    """One record, or one part around the records, is too large; facts: limit, offset, setting."""
    PART_ELEMENTS = "part_elements"
    """One record, or one part around the records, has too many elements; facts: limit, offset, setting."""
    PART_DEPTH = "part_depth"
    """Elements are nested too deeply; facts: limit, offset, setting."""
    MEMORY = "memory"
    """A process that parses answers reached its memory limit; facts: limit, setting."""
    EMPTY_PAGES = "empty_pages"
    """Too many consecutive pages have no record; facts: pages, setting."""
    NO_NEW_RECORDS = "no_new_records"
    """Too many consecutive pages repeat records of the same list; facts: pages, setting."""
    LIST_IN_CIRCLES = "list_in_circles"
    """A resumption token leads back to a page that was already received; facts: token."""
    RECOVERY_TIME = "recovery_time"
    """Recovering from faults took longer than a run may spend on it; facts: limit, setting."""
    WAITING_TIME = "waiting_time"
    """The repository repeatedly asked to wait and sent no page; facts: limit, setting."""
    # End of a list. Facts: count.
    RECORDS_MISSING = "records_missing"
    LIST_ENDED_ABRUPTLY = "list_ended_abruptly"
    """The last page was full and had no empty resumption token."""
    LIST_ENDED_BY_ERROR = "list_ended_by_error"
    """noRecordsMatch instead of a last page."""
    LIST_UNCONFIRMED = "list_unconfirmed"
    """An answer was malformed, and the repository does not state how many records there are."""
    REQUESTS_SPENT = "requests_spent"
    """Isolating the record that makes an answer unreadable took too many requests; facts: setting."""
    RECORDS_REFUSED = "records_refused"
    RECORDS_UNDATED = "records_undated"
    """Records without a datestamp, which got the date of the answer; additional fact: identifier."""
    RECORDS_NOT_VALID = "records_not_valid"
    """Records that break their XML Schema, stored by a lenient harvest; additional fact: checked."""
    # Runs that wait for a decision.
    HELD = "held"
    RELEASED = "released"
    """A held run that a user released; facts: at."""
    # Local causes.
    RULES = "rules"
    REQUEST_INVALID = "request_invalid"
    """The request or the schedule is impossible."""
    REPOSITORY_BUSY = "repository_busy"
    INTERRUPTED = "interrupted"
    DATABASE = "database"
    DISK_FULL = "disk_full"
    PLACE_UNUSABLE = "place_unusable"
    INTERNAL_ERROR = "internal_error"
    """Facts: error, the name of its class."""
    OTHER = "other"
    """Not classified; also rows written by earlier versions."""
    # Jobs stopped between two pages, and processes that ended. Facts of processes: number, host; said, the
    # last line of their output.
    JOB_STOPPED = "job_stopped"
    JOB_PAUSED = "job_paused"
    JOB_RESTARTED = "job_restarted"
    MANAGER_ENDED = "manager_ended"
    PROCESS_STOPPED = "process_stopped"
    PROCESS_PAUSED = "process_paused"
    PROCESS_DELETED = "process_deleted"
    PROCESS_KILLED = "process_killed"
    PROCESS_RESTARTED = "process_restarted"
    PROCESS_ENDED_WITH_MANAGER = "process_ended_with_manager"
    PROCESS_LOST = "process_lost"
    PROCESS_NOT_STARTED = "process_not_started"
    PROCESS_SIGNALLED = "process_signalled"
    """Additional fact: signal."""
    PROCESS_EXITED = "process_exited"
    """Additional fact: exit_code."""
    IMPORT_LOST = "import_lost"
    # Due times at which no run started. Facts: count, more (whether there are more), first, last.
    RUN_SKIPPED = "run_skipped"
    RUN_MISSED = "run_missed"
    # Schedules that create no further jobs.
    SCHEDULE_FAILING = "schedule_failing"
    """Facts: count, schedule; last, the last run's failure as `Failure.as_json`; reason, in English."""
    SCHEDULE_OVER = "schedule_over"
    """Facts: end."""
    # One record, or one part of an answer. Facts: line and column, if the parser knows them.
    RECORD_CHARACTER = "record_character"
    """A character that XML does not allow."""
    RECORD_ENCODING = "record_encoding"
    RECORD_XML = "record_xml"
    RECORD_HEADER = "record_header"
    RECORD_METADATA_MISSING = "record_metadata_missing"
    RECORD_STRUCTURE = "record_structure"
    """Not header, metadata and about; or another element instead of a record."""
    RECORD_INVALID = "record_invalid"
    RECORD_NOT_VALID = "record_not_valid"
    """A lenient harvest stored it although it breaks its XML Schema; facts: identifier, line."""
    RECORD_RULE_LIMIT = "record_rule_limit"
    RECORD_MISMATCH = "record_mismatch"
    """The answer has another record than the requested one; facts: found."""
    RECORD_OTHER = "record_other"
    """Also rows written by earlier versions."""
    # Archive files, and records in them. Facts: bytes, how many a damaged record costs.
    ARCHIVE_NOT_READABLE = "archive_not_readable"
    ARCHIVE_NOT_ARCHIVE = "archive_not_archive"
    ARCHIVE_PACKED = "archive_packed"
    """In a format that is not read; facts: format."""
    ARCHIVE_UNFINISHED = "archive_unfinished"
    ARCHIVE_RECORD_BROKEN = "archive_record_broken"
    ARCHIVE_RECORD_TRUNCATED = "archive_record_truncated"
    ARCHIVE_RECORD_LENGTH = "archive_record_length"
    """A record with a wrong length whose content is complete and was indexed."""
    ARCHIVE_RECORD_INVALID = "archive_record_invalid"
    """A record without a valid URL or capture time."""
    ARCHIVE_RECORDS_JOINED = "archive_records_joined"
    ARCHIVE_LINE_INVALID = "archive_line_invalid"
    """Facts: line."""
    ARCHIVE_DIGEST_DIFFERS = "archive_digest_differs"
    """A capture with the URL and time of another one, but different content."""
    ARCHIVE_NAME_AMBIGUOUS = "archive_name_ambiguous"
    """A CDX file lists a name that several archive files have; facts: name, count."""
    ARCHIVE_DOCUMENTS_GONE = "archive_documents_gone"
    """Facts: count."""
    ARCHIVE_MORE_PROBLEMS = "archive_more_problems"
    """Problems that are not stored one by one; facts: count."""
    ARCHIVE_NOT_INDEXED = "archive_not_indexed"
    """The database does not accept the file's captures."""
    ARCHIVE_PROCESS_LOST = "archive_process_lost"
    """The process or worker that indexed the file ended early."""
    ARCHIVE_TASK_LOST = "archive_task_lost"
    """The queue no longer has a task for the file."""
    ARCHIVE_MOVED = "archive_moved"
    """The file is missing, and one with its name is elsewhere."""
    ARCHIVE_CHANGED = "archive_changed"
    ARCHIVE_ALTERED = "archive_altered"
    ARCHIVE_OTHER = "archive_other"
    """Only in rows written by earlier versions; facts: text, the reason as stored."""
    # Audits of the store.
    STORE_DAMAGED = "store_damaged"
    """Files do not match their rows; facts: missing, altered, stray."""
    STORE_AUDIT_INCOMPLETE = "store_audit_incomplete"
    """An audit did not finish; facts: said, why, in English."""
    # Waits.
    WAITING = "waiting"
    """Facts: until; for, the failure that causes the wait as `Failure.as_json`."""


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
    "broken": "malformed_answer",
    "argument": "bad_request",
    "token": "bad_token list_in_circles no_new_records empty_pages",
    "format": "format_not_offered",
    "set": "no_sets",
    "invalid": "invalid",
    "large": "answer_bytes answer_ratio part_bytes part_elements part_depth memory",
    "missing": "records_missing list_ended_abruptly list_ended_by_error list_unconfirmed",
    "records": "records_refused",
    "held": "held",
    "released": "released",
    "rules": "rules",
    "plan": "request_invalid",
    "running": "repository_busy",
    "interrupted": "interrupted",
    "database": "database",
    "disk": "disk_full",
    "fault": "internal_error",
    "process": "process_lost process_not_started process_signalled process_exited",
}
_KINDS: Final[Mapping[FailureCode, str]] = MappingProxyType(
    {FailureCode(code): kind for kind, codes in _CODES_OF_KINDS.items() for code in codes.split()}
)
"""`failure_kind` in mails, webhooks and hooks; it is coarser and must not change. Others have `other`."""

# Numbers that serve as names are written without thousands separators.
_NAMES: Final = frozenset({"number", "signal", "exit_code", "schedule", "status"})
SENTENCES: Final[Mapping[FailureCode, str]] = MappingProxyType(
    {
        FailureCode.ANSWER_BYTES: (
            "the answer is larger than %(limit)s bytes; to accept it, raise %(setting)s"
        ),
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
        FailureCode.PROCESS_DELETED: (
            "the job was deleted, so process %(number)s on host '%(host)s' was ended"
        ),
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
    }
)


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
        return _KINDS.get(self.code, FailureCode.OTHER.value)

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
        return show_time(str(value)) if name in _TIMES else _shown(name, value)

    facts = {name: show(name, value) for name, value in failure.facts.items()}
    if "first" in facts:
        facts["times"] = _times(failure, facts)
    shown = _Shown(facts, fact)
    return Explanation(what=words.what % shown, todo=words.todo % shown, who=words.who)


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


def _shown(name: str, value: object) -> str:
    if isinstance(value, int) and name not in _NAMES:
        return f"{value:,}"
    return repr(value) if value == "" else str(value)
