"""The parameters of a harvest, each declared once.

The rows of schedules and jobs, `HarvestRequest`, the dashboard's form, the API and the commands take names,
types, defaults, choices and help from here. If a surface lacks a parameter, `absent` has the reason. Command
lines are built from this module, so it imports nothing heavy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any, Final

from harvester.vocabulary import Level, Method, Overlap, Slice


class Surface(StrEnum):
    """A surface that may carry a parameter."""

    SCHEDULE = "oai_recurring_job"
    JOB = "oai_job"
    REQUEST = "HarvestRequest"
    PROCESS = "python -m harvester"
    COMMAND = "zatva harvest"
    SCHEDULE_COMMAND = "zatva schedule"
    FORM = "form, request body of the API"
    API = "answer of the API"


class Default(StrEnum):
    """Defaults that are not values."""

    NOW = "now"
    """The present moment by the database's clock."""
    USUAL = "usual"
    """For forms the default of the column, for columns that of the field."""


@dataclass(frozen=True, eq=False, repr=False)
class Option:
    """An option of a command."""

    flags: str
    """Its flags, separated by blanks."""
    help: str
    metavar: str | None = None
    dest: str | None = None
    place: int = 0
    """Options with a higher place follow later in the help."""

    @property
    def target(self) -> str:
        """The name of its value in a command's arguments."""
        return self.dest or self.flags.split()[0].lstrip("-").replace("-", "_")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Parameter:
    """A parameter, and what each surface needs to carry it."""

    name: str = ""
    """Name of its field here and in `HarvestRequest`."""
    column: str = ""
    """Its name in `oai_recurring_job`, forms and API; `name` by default."""
    job_column: str = ""
    """Its name in `oai_job`; that in `oai_recurring_job` by default."""
    kind: type = str
    """Type of the stored value: str, int, bool, datetime, or Path for a file's path."""
    choices: type[IntEnum | StrEnum] | None = None
    reversed: bool = False
    """Whether the field means the opposite of the column."""
    default: Any = None
    """Default of the field."""
    stored: Any = Default.USUAL
    """Default of the columns and of `zatva schedule add`; None: may be empty."""
    form: Any = Default.USUAL
    """Default of forms and the API; None: may be empty."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Limits in forms and the API, under pydantic's names."""
    about: str | None = None
    """Its description in the API document."""
    label: str = ""
    """Its label on pages; parameters without one have their own text there."""
    hint: str = ""
    schedule: Option | None = None
    schedule_no: Option | None = None
    """The option for no, if `schedule` is the one for yes."""
    command: Option | None = None
    absent: Mapping[Surface, str] = field(default_factory=dict)
    """The surfaces that do not carry it, and why."""

    def on(self, surface: Surface) -> bool:
        """Return whether the surface carries it."""
        return surface not in self.absent

    @property
    def process(self) -> str:
        """Its argument of `python -m harvester`; as an option it has hyphens."""
        name = self.name if self.kind is bool else self.column
        return name.removesuffix("_path").removesuffix("_records")

    def value(self, stored: Any) -> Any:  # noqa: ANN401 the field's type
        """Return the field's value for an argument of `python -m harvester`; None means the default."""
        if stored is None or (stored == "" and self.default is None):
            return self.default
        if self.choices is not None:
            return self.choices(stored)
        return Path(stored) if self.kind is Path else stored

    @property
    def words(self) -> Mapping[str, IntEnum | StrEnum]:
        """Its choices by the words of `zatva harvest`."""
        return {
            one.name.lower().replace("_", "-") if self.kind is int else str(one.value): one
            for one in self.choices or ()
        }

    @property
    def options(self) -> list[tuple[str, str]]:
        """Its choices for a form, by stored value."""
        return [(str(one.value), word) for word, one in self.words.items()]


def _of(**about: Any) -> Mapping[str, Parameter]:  # noqa: ANN401 as in Parameter
    return {"parameter": Parameter(**about)}


PREFIX: Final = r"^[A-Za-z0-9\-_.!~*'()]+$"
LONGEST_SELECTION: Final = 4096
"""Maximum length of a set or query; `harvester.access` defines what it may contain."""
_PLANNED: Final = (Surface.SCHEDULE, Surface.SCHEDULE_COMMAND, Surface.FORM, Surface.API)
_RUNNING: Final = (Surface.REQUEST, Surface.PROCESS, Surface.COMMAND)
_SAMPLE: Final = dict.fromkeys(_PLANNED, "a sample is a job of its own; a schedule's runs are whole")
_NOW_ONLY: Final = dict.fromkeys((*_PLANNED, Surface.JOB), "only a person who harvests now decides on it")
_FLOOR: Final = dict.fromkeys(
    (*_PLANNED, Surface.JOB, Surface.COMMAND),
    "the `harvest_from` of a schedule becomes that of its later runs",
)
_QUEUED: Final = dict.fromkeys(_RUNNING, "it orders the jobs that wait; one that runs waits no more")
_TIMED: Final = dict.fromkeys((Surface.JOB, *_RUNNING), "a schedule's times become those of its jobs")
_LOCAL: Final = "A time without an offset is local time in `time_zone`."
_OWNED: Final = dict.fromkeys((Surface.FORM, Surface.API), "it is the organisation of the repository")
_INCREMENTAL: Final = "harvest only what changed since the last harvest (default)"
_FULL: Final = "harvest all records, not only those that changed since the last harvest"
_BY_IDENTIFIER: Final = "arrange files by the parts of their identifier (default)"
_FREQUENCY: Final = "`every 6 hours`, `daily at 02:30`, a cron expression; without it, the harvest runs once"
_START: Final = "earliest time to run, ISO 8601, UTC if it has no offset (default for a new schedule: now)"
_OVERLAP: Final = "what to do with a run that is due while the previous one is running"
_FILES: Final = "files in one directory (default: the setting)"
_SLICES: Final = (
    "split the list by month or day, for repositories whose tokens expire before the whole list is read"
)
_STRICTNESS: Final = (
    "strict: well-formed answers; very-strict: valid records; loose: lenient, skip what is broken"
)
_PLACE: Final = " (from the current folder, or else the data folder)"
_SELECTION: Final = "setSpec (default: the whole repository); for SRU a CQL query, for Z39.50 a PQF query"


# A table: an entry has a few lines, not one per value. These classes are never instantiated, and the methods
# for that would take 2 ms at the start of each command; `HarvestRequest` has them.
# fmt: off
@dataclass(frozen=True, kw_only=True, init=False, eq=False, repr=False)
class HarvestParameters:
    """The parameters of one harvest (UIUC, "Harvester Program"), and a few more.

    `harvest_from` and `harvest_to` are datestamps in either granularity. `full` ignores the watermark of
    earlier harvests. `max_records` makes the run a sample: it ends there, and only its records are kept.
    `slice` requests a month or a day at a time, for repositories whose tokens expire before a whole list is
    read. `ignore_wait` sends requests although the repository asked for a longer wait. Instead of
    all records, a run without `harvest_from` requests those since `harvest_floor`, or only what changed since
    the last complete harvest, if that reached back so far.
    """

    metadata_prefix: str = field(default="oai_dc", metadata=_of(
        limits={"pattern": PREFIX, "max_length": 60},
        about="The metadataPrefix.",
        schedule=Option("--format", "metadataPrefix", "PREFIX"),
        command=Option("--format", "metadataPrefix (default: oai_dc)", "PREFIX"),
    ))
    set_spec: str = field(default="", metadata=_of(
        limits={"max_length": LONGEST_SELECTION},
        about="The set; for SRU and Z39.50, the query.",
        schedule=Option("--set", "setSpec (default: all records)", "SPEC"),
        command=Option("--set --query", _SELECTION, "SPEC"),
    ))
    harvest_from: str | None = field(default=None, metadata=_of(
        schedule=Option("--from", "earliest datestamp; earlier changes are not requested", "DATE"),
        command=Option("--from", "earliest datestamp", "DATE", "from_"),
    ))
    harvest_to: str | None = field(default=None, metadata=_of(
        schedule=Option("--until", "each harvest: latest datestamp", "DATE"),
        command=Option("--until", "latest datestamp", "DATE"),
    ))
    full: bool = field(default=False, metadata=_of(
        column="incremental", reversed=True, form=False,
        about="True: only records that changed since the last harvest; false: all records each time.",
        schedule=Option("--incremental", _INCREMENTAL),
        schedule_no=Option("--full", "harvest all records each time"),
        command=Option("--full", _FULL, place=5),
    ))
    method: Method = field(default=Method.RECORDS, metadata=_of(
        choices=Method, job_column="harvest_method",
        about="0 ListRecords, 1 ListIdentifiers and GetRecord.",
        schedule=Option("--method", "ListRecords, or ListIdentifiers with a GetRecord for each"),
        command=Option("--method", "ListRecords, or ListIdentifiers with a GetRecord for each"),
    ))
    validation: Level = field(default=Level.LOOSE, metadata=_of(
        choices=Level, about="0 strict, 1 very strict, 2 loose.",
        schedule=Option("--validation", _STRICTNESS),
        command=Option("--validation", _STRICTNESS),
    ))
    filter_file: Path | None = field(default=None, metadata=_of(
        kind=Path, column="filter_file_path",
        about="Rules that select records: the absolute path of the file.",
        schedule=Option("--filter --filter-file", f"rules that select records{_PLACE}", "FILE", place=2),
        command=Option("--filter", "rules that select records", "FILE"),
    ))
    normalize_file: Path | None = field(default=None, metadata=_of(
        kind=Path, column="normalize_file_path",
        about="Rules that add values: the absolute path of the file.",
        schedule=Option(
            "--normalise --normalize --normalize-file", f"rules that add values{_PLACE}", "FILE", place=2
        ),
        command=Option("--normalise --normalize", "rules that add values", "FILE"),
    ))
    max_records: int | None = field(default=None, metadata=_of(
        kind=int, absent=_SAMPLE,
        command=Option("--max", "stop after this many records", "N", place=1),
    ))
    parse_id: bool = field(default=True, metadata=_of(
        schedule=Option("--parse-id", _BY_IDENTIFIER, place=2),
        schedule_no=Option("--no-parse-id", "put all files into one directory", place=2),
        command=Option("--no-parse-id", "put all files into one folder", place=1),
    ))
    files_per_directory: int = field(default=5000, metadata=_of(
        column="files_per_dir", stored=None, limits={"ge": 1, "le": 1_000_000},
        schedule=Option("--files-per-dir", _FILES, "N", place=2),
        command=Option("--files-per-dir", "files in one folder (default: 5000)", "N", place=4),
    ))
    slice: Slice | None = field(default=None, metadata=_of(
        choices=Slice,
        schedule=Option("--slice", _SLICES, place=2), command=Option("--slice", _SLICES, place=2),
    ))
    ignore_wait: bool = field(default=False, metadata=_of(
        absent=_NOW_ONLY,
        command=Option("--ignore-wait", "harvest even if the repository asked to wait longer", place=3),
    ))
    harvest_floor: str | None = field(default=None, metadata=_of(absent=_FLOOR))


@dataclass(frozen=True, kw_only=True, init=False, eq=False, repr=False)
class HarvestPlan(HarvestParameters):
    """The parameters of a schedule: besides what is harvested and how, also when, and with which priority.

    `frequency` is `every 6 hours`, `daily at 02:30`, `weekly on monday at 02:30`, `monthly on 1 at 02:30` or
    a cron expression of five fields; none or empty for a one-off. `priority` is from -1000 to 1000; of the
    due jobs those with the highest one start first, and among equals, owners take turns.
    """

    frequency: str | None = field(default=None, metadata=_of(
        form="", limits={"max_length": 200}, absent=_TIMED,
        about="Null or empty: once; otherwise `every 6 hours`, `daily at 02:30`, a cron expression.",
        schedule=Option("--frequency", _FREQUENCY, "F", place=-1),
    ))
    time_zone: str = field(default="UTC", metadata=_of(
        absent=_TIMED, schedule=Option("--zone", "time zone of the frequency", place=-1),
    ))
    start_date: datetime | None = field(default=None, metadata=_of(
        kind=datetime, stored=Default.NOW, form=None, absent=_TIMED, about=f"Earliest time to run. {_LOCAL}",
        schedule=Option("--start", _START, "TIME", place=-1),
    ))
    end_date: datetime | None = field(default=None, metadata=_of(
        kind=datetime, about=f"Latest time to run. {_LOCAL}", absent=_TIMED,
        schedule=Option("--end", "latest time to run", "TIME", place=-1),
    ))
    overlap: Overlap = field(default=Overlap.SKIP, metadata=_of(
        choices=Overlap, absent=_TIMED,
        schedule=Option("--overlap", _OVERLAP, place=1),
    ))
    priority: int = field(default=0, metadata=_of(
        limits={"ge": -1000, "le": 1000}, absent=_QUEUED,
        schedule=Option("--priority", "-1000 to 1000; higher priority runs first", "N", place=1),
    ))
    owner: str | None = field(default=None, metadata=_of(
        absent={**_QUEUED, **_OWNED},
        schedule=Option("--owner", "owner of the schedule; owners take turns", "NAME", place=1),
    ))
# fmt: on


def _declared() -> Iterator[Parameter]:
    """Yield each parameter, completed with what its field declares."""
    for one in fields(HarvestPlan):
        found: Parameter = one.metadata["parameter"]
        default = one.default.value if isinstance(one.default, Enum) else one.default
        stored = found.stored
        if stored is Default.USUAL:
            stored = default is not found.reversed if isinstance(default, bool) else default
            stored = None if stored == "" else stored
        yield replace(
            found,
            name=one.name,
            column=found.column or one.name,
            job_column=found.job_column or found.column or one.name,
            kind=found.kind if default is None else type(default),
            default=one.default,
            stored=stored,
            form=stored if found.form is Default.USUAL else found.form,
        )


PARAMETERS: Final = tuple(_declared())


def carried(*surfaces: Surface) -> Sequence[Parameter]:
    """Return the parameters that these surfaces have in common."""
    return [one for one in PARAMETERS if all(one.on(surface) for surface in surfaces)]
