"""Whether a rule file can be used: it is read as a harvest reads it."""

from harvester.rule_lab.kinds import RuleKind
from harvester.rules.filtering import Filters, parse_filters
from harvester.rules.normalising import Mappings, parse_mappings
from harvester.rules.rule_files import MAX_BYTES, RuleFileError
from harvester.rules.rule_limits import Limits
from oai.errors import MalformedXmlError
from oai.xml import parse


def kind_of(data: bytes, *, source: str) -> RuleKind:
    """The kind of a rule file, by its root element. Raises RuleFileError where it is of neither."""
    if len(data) > MAX_BYTES:
        raise RuleFileError(source, f"larger than {MAX_BYTES:,} bytes; split the rules")
    try:
        root = parse(data, source=source)
    except MalformedXmlError as error:
        reason = f"not well-formed XML: {error.reason}; correct it"
        raise RuleFileError(source, reason, line=error.line, column=error.column) from None
    found = {"filters": RuleKind.FILTER, "normalize": RuleKind.NORMALISE}.get(str(root.tag))
    if found is None:
        reason = (
            f"the root element is <{root.tag}>; a filter file begins with <filters>, a normalise file with"
        )
        raise RuleFileError(source, f"{reason} <normalize>", line=1)
    return found


def read_rules(
    data: bytes, kind: RuleKind, *, source: str, limits: Limits | None = None
) -> Filters | Mappings:
    """The rules of a file, ready for use. Raises RuleFileError with line, column, reason, what to do."""
    if kind is RuleKind.FILTER:
        return parse_filters(data, source=source, limits=limits)
    return parse_mappings(data, source=source, limits=limits)
