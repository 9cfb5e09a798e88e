"""Forms validated by pydantic models, with the submitted values kept for correction."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Self, TypeVar, get_args

from multidict import MultiMapping
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from sqlalchemy.orm import Session

from oai.audit import AuditEntry
from oai.errors import UsageError
from web.site.i18n import _, error_text, mark
from web.site.zones import here, is_convertible

_Model = TypeVar("_Model", bound=BaseModel)
_Row = TypeVar("_Row")
_Value = TypeVar("_Value")
BASED_ON: Final = "based_on"
"""Hidden field with the fingerprint of what a form was filled from."""
PREVIEWED: Final = "previewed"
"""Hidden field with the fingerprint of what a form asked for in its preview."""
_LONGEST_PATH: Final = 1000
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}")
_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d+,\d{1,2}")
_BIDI_OVERRIDE: Final = re.compile("[\u202d\u202e]")
"""Characters that show a text in another order than the stored one; marks of direction are left to Hebrew."""
_BOUNDS: Final = ("ge", "le", "max_length")
_NONE: Final[Mapping[str, str]] = {}
_FILL_IN: Final = mark("Fill in this field.")
_WHOLE: Final = mark("Enter a whole number.")
_NUMBER: Final = mark("Enter a number.")
_DATE: Final = mark("Enter a date, such as 2026-01-31.")
_TIME: Final = mark("Enter a date and a time, such as 2026-01-31 12:00.")
_CHOOSE: Final = mark("Choose one of the options.")
FAULT_WORDS: Final[Mapping[str, str]] = {
    "missing": _FILL_IN,
    "string_type": _FILL_IN,
    "string_too_short": _FILL_IN,
    "string_too_long": mark("Enter at most %(bound)s characters."),
    "string_pattern_mismatch": mark("Leave out spaces, accents and characters that are not allowed here."),
    "bool_type": _CHOOSE,
    "bool_parsing": mark("Choose yes or no."),
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "decimal_type": _NUMBER,
    "decimal_parsing": _NUMBER,
    "finite_number": _NUMBER,
    "greater_than_equal": mark("Enter a number of at least %(bound)s."),
    "less_than_equal": mark("Enter a number of at most %(bound)s."),
    "date_type": _DATE,
    "date_parsing": _DATE,
    "date_from_datetime_parsing": _DATE,
    "date_from_datetime_inexact": mark("Enter a date without a time."),
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "datetime_object_invalid": _TIME,
    "timezone_aware": mark("Add the time zone, such as Z for UTC."),
    "enum": _CHOOSE,
    "tuple_type": _CHOOSE,
}
"""What people read for a kind of pydantic error; the kinds that no form can have are left out."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem that stopped the whole action: what happened, and what to do."""

    title: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Form:
    """A form as its page shows it: the values of its fields and their errors."""

    values: Mapping[str, object]
    errors: Mapping[str, str] = field(default_factory=lambda: _NONE)
    problem: Problem | None = None
    is_stale: bool = False
    """The object was changed since the form was filled from it; `errors` have the present values."""
    stored: Mapping[str, object] = field(default_factory=lambda: _NONE)
    """Those values as they are stored, with which a choice finds its words."""
    changed: AuditEntry | None = None
    """That change, if the audit log has it."""

    @property
    def status(self) -> int:
        """Return the HTTP status of the page with the form."""
        if self.is_stale:
            return 409
        return 422 if self.errors else 200

    def with_error(self, name: str, message: str, problem: Problem | None = None) -> Self:
        """Return the form with one more error, at the field of that name."""
        return replace(self, errors={**self.errors, name: message}, problem=problem)

    def refused(self, error: "UsageError | StaleFormError", name: str) -> "Form":
        """Return the form to show again after a change failed; a UsageError is shown at the field `name`."""
        return error.form if isinstance(error, StaleFormError) else self.with_error(name, error_text(error))


class StaleFormError(Exception):
    """An object was changed since a form was filled from it."""

    def __init__(self, form: Form) -> None:
        super().__init__("the object was changed since the form was filled from it")
        self.form = form
        """The form to show again; submitted again, it replaces the other change."""


def _has_float(annotation: object) -> bool:
    return annotation is float or any(map(_has_float, get_args(annotation)))


def _blank_is_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def empty_is_none(*names: str) -> Any:  # noqa: ANN401 pydantic's descriptor has no public type
    """Return a validator for fields that may be left empty; keep it as an attribute of the form."""
    return field_validator(*names, mode="before")(_blank_is_none)


def _in_readers_zone(value: datetime) -> datetime:
    return value if value.tzinfo is not None else value.replace(tzinfo=here())


LocalTime = Annotated[datetime, AfterValidator(_in_readers_zone)]
"""A time in a form; one without a zone is in the reader's."""


class FormModel(BaseModel):
    """Base of the form models: surrounding whitespace is stripped, and unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_plain_text(cls, value: object) -> object:
        check_plain_text(value)
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _with_decimal_point(cls, value: object, info: ValidationInfo) -> object:
        """Accept the decimal comma of most languages; three digits behind it may be thousands."""
        if not isinstance(value, str) or not _DECIMAL_COMMA.fullmatch(value.strip()):
            return value
        is_number = _has_float(cls.model_fields[info.field_name or ""].annotation)
        return value.replace(",", ".") if is_number else value

    @field_validator("*")
    @classmethod
    def _is_convertible(cls, value: object) -> object:
        if isinstance(value, date) and not is_convertible(value):
            raise ValueError(_("Enter a year from 2 to 9998."))
        return value


def check_plain_text(value: object) -> None:
    """Raise ValueError for a text with control characters, or with invisible characters alone."""
    if not isinstance(value, str):
        return
    if _has_control_characters(value) or _BIDI_OVERRIDE.search(value):
        raise ValueError(_("Remove control characters."))
    if value.strip() and not any(map(_is_visible, value)):
        raise ValueError(_("Enter at least one visible character."))


def read_form(
    model: type[_Model], posted: MultiMapping[Any], context: Mapping[str, Any] | None = None
) -> tuple[_Model | None, Form]:
    """Return the validated form, or None if there are errors; and the form to show again."""
    values = texts_of(posted)
    try:
        return model.model_validate(values, context=dict(context or {})), Form(values=values)
    except ValidationError as error:
        errors: dict[str, str] = {}
        for fault in error.errors(include_url=False):
            name = str(fault["loc"][0]) if fault["loc"] else ""
            errors.setdefault(name, _in_words(fault))
        return None, Form(values=values, errors=errors)


def filled_from(stored: Mapping[str, _Value]) -> dict[str, _Value | str]:
    """Return the first values of an object's form, with a hidden fingerprint of what it was filled from."""
    return {**stored, BASED_ON: _fingerprint(stored)}


@contextmanager
def keeping_other_changes(
    form: Form, read: Callable[[], Mapping[str, object]], last: Callable[[], AuditEntry | None]
) -> Iterator[None]:
    """Let the body store what the form says; raise StaleFormError if that undoes a change by others.

    `read` returns what the form would be filled from, `last` the last change of the object. A form that
    changes nothing, such as one submitted by a double click, and one without a fingerprint, as scripts send
    it, is never stale.
    """
    before = read()
    yield
    refuse_stale(form, before, read(), last)


def refuse_stale(
    form: Form,
    stored: Mapping[str, object],
    wanted: Mapping[str, object],
    last: Callable[[], AuditEntry | None] = lambda: None,
) -> None:
    """Raise StaleFormError as `keeping_other_changes` does, before a change that commits by itself.

    `stored` is what the form would be filled from, before the change and after it (`wanted`).
    """
    before = _fingerprint(stored)
    if form.values.get(BASED_ON, before) != before and _fingerprint(wanted) != before:
        now = {
            name: _("Now: %(value)s") % {"value": _in_form(stored[name])}
            for name in stored
            if str(stored[name]) != str(wanted.get(name))
        }
        values = {**form.values, BASED_ON: before}
        raise StaleFormError(Form(values=values, errors=now, is_stale=True, stored=stored, changed=last()))


def _in_form(value: object) -> str:
    """Return a field's value as people read it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
    return text or "\N{EN DASH}"


def with_preview(form: Form, asked: FormModel) -> Form:
    """Return the form with a hidden fingerprint of what it asked for when its preview was made."""
    return replace(form, values={**form.values, PREVIEWED: _fingerprint(asked.model_dump())})


def differs_from_preview(form: Form, asked: FormModel) -> bool:
    """Return whether fields were changed after the preview; never without one, as scripts send a form."""
    return form.values.get(PREVIEWED) not in {None, _fingerprint(asked.model_dump())}


def locked_row(session: Session, table: type[_Row], number: int) -> _Row:
    """Return a row that no other form changes before the transaction ends.

    Raises UsageError if it was removed.
    """
    row = session.get(table, number, with_for_update={"key_share": True})
    if row is None:
        raise UsageError(_("It was removed in the meantime."))
    return row


def _fingerprint(stored: Mapping[str, object]) -> str:
    text = json.dumps({name: str(value) for name, value in stored.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def texts_of(posted: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts in a posted form, without its files."""
    return {name: value for name, value in posted.items() if isinstance(value, str)}


def read_time(text: str) -> datetime | None:
    """Return the time that a text such as `2026-01-31T14:30:00Z` gives, or None."""
    if _MOMENT.match(text):
        with suppress(ValueError):
            return datetime.fromisoformat(text.upper())
    return None


def relative_folder(text: str, root: Path) -> str:
    """Return the directory as a path relative to `root`, with `/` as separator.

    Raises ValueError for a path outside `root`, for `root` itself, and for an invalid path.
    """
    if _has_control_characters(text) or len(text) > _LONGEST_PATH:
        raise ValueError(_("Enter a folder name of at most 1000 characters, without control characters."))
    if ".." in PurePosixPath(text).parts:
        raise ValueError(_("Leave out `..`: files are stored only below the store."))
    try:
        inside = (root / text).resolve().relative_to(root.resolve())
    except ValueError:
        raise ValueError(_("Enter a folder below the store, such as `mzk` or `libraries/mzk`.")) from None
    if not inside.parts:
        raise ValueError(_("Enter a separate folder below the store, such as `mzk`."))
    return inside.as_posix()


def _has_control_characters(text: str) -> bool:
    return any(character < " " for character in text)


def _is_visible(character: str) -> bool:
    return unicodedata.category(character)[0] in "LNPS"


def _in_words(fault: Mapping[str, Any]) -> str:
    context = fault.get("ctx", {})
    if fault["type"] == "value_error":
        return str(context["error"])
    bounds = [context[name] for name in _BOUNDS if name in context]
    words = _(FAULT_WORDS.get(fault["type"], mark("This value is not valid.")))
    return words % {"bound": bounds[0]} if bounds else words
