"""Sets: the list of sets, and their records (specification, sections 2.6, 2.7.2 and 4.6)."""

import re
from collections import Counter
from typing import Final

from provider.checking.findings import Checklist, Severity, Verdict, verdict
from provider.checking.survey import CannotBeDoneError, NotApplicableError, OfferedSet, Survey

LIST: Final = Checklist(subject="sets")

_PART: Final = r"[A-Za-z0-9\-_.!~*'()]+"
_SET_SPEC: Final = re.compile(rf"{_PART}(:{_PART})*")


@LIST.add(
    "form",
    "setSpecs have only allowed characters",
    section="2.6",
    advice="Use only letters, digits and -_.!~*'() in setSpecs, with colons between the levels.",
)
def _form(survey: Survey) -> Verdict:
    wrong = [known.set_spec for known in _sets(survey) if not _SET_SPEC.fullmatch(known.set_spec)]
    return _on_list(survey, not wrong, "such setSpecs", ", ".join(wrong[:5]))


@LIST.add(
    "names",
    "Every set has a name",
    section="4.6",
    advice="Give each set a setName that people understand.",
)
def _names(survey: Survey) -> Verdict:
    wrong = [known.set_spec for known in _sets(survey) if not known.name]
    return _on_list(survey, not wrong, "a setName for each set", ", ".join(wrong[:5]))


@LIST.add(
    "unique",
    "No set is listed twice",
    section="4.6",
    advice="List each setSpec once; check that the pages of ListSets do not overlap.",
)
def _unique(survey: Survey) -> Verdict:
    counts = Counter(known.set_spec for known in _sets(survey))
    twice = sorted(spec for spec, count in counts.items() if count > 1)
    return _on_list(survey, not twice, "each set once", ", ".join(twice[:5]))


@LIST.add(
    "parents",
    "The parents of sets are also sets",
    section="2.6",
    severity=Severity.SHOULD,
    advice="A colon separates levels: list `a` if `a:b` is listed, or use another character.",
)
def _parents(survey: Survey) -> Verdict:
    known = {offered.set_spec for offered in _whole(survey)}
    nested = [spec for spec in known if ":" in spec]
    if not nested:
        raise NotApplicableError("the sets have no levels")
    orphans = sorted(spec for spec in nested if spec.rpartition(":")[0] not in known)
    return _on_list(survey, not orphans, "the parent of each set", ", ".join(orphans[:5]))


@LIST.add(
    "listed",
    "ListSets lists the sets that headers name",
    section="2.6",
    advice="List every set that has records.",
)
def _listed(survey: Survey) -> Verdict:
    known = {offered.set_spec for offered in _whole(survey)}
    named = {spec for header in survey.records.headers for spec in header.set_specs}
    unknown = sorted(named - known)
    return _on_list(survey, not unknown, "the sets of all headers found", ", ".join(unknown[:5]))


@LIST.add(
    "membership",
    "Records listed for a set name that set in their headers",
    section="2.7.2",
    advice="Let each header name the requested set, or one below it, in a setSpec.",
)
def _membership(survey: Survey) -> Verdict:
    chosen = survey.chosen_set
    strangers = [
        header
        for header in survey.set_records.headers
        if not any(spec == chosen or spec.startswith(f"{chosen}:") for spec in header.set_specs)
    ]
    came = f"{strangers[0].identifier} in {strangers[0].set_specs}" if strangers else _seen(survey)
    return verdict(not strangers, survey.set_records.pages[0], expected=f"setSpec {chosen}", came=came)


@LIST.add(
    "complete",
    "Records whose headers name a set are listed for it",
    section="2.7.2",
    advice="Find out why the record is not listed for the set that its header names.",
)
def _complete(survey: Survey) -> Verdict:
    chosen = survey.chosen_set
    listed = set(survey.set_records.identifiers)
    missing = [
        header.identifier
        for header in survey.records.headers
        if chosen in header.set_specs and header.identifier not in listed
    ]
    if missing and not survey.set_records.ended:
        raise CannotBeDoneError(f"the set {chosen} is too long to be read completely")
    came = f"missing: {missing[0]}" if missing else _seen(survey)
    return verdict(not missing, survey.set_records.pages[0], expected=f"all of {chosen}", came=came)


@LIST.add(
    "ancestors",
    "A set includes the records of the sets below it",
    section="2.7.2",
    advice="A record in `a:b` is also in `a`; list it when `a` is requested.",
)
def _ancestors(survey: Survey) -> Verdict:
    nested = [spec for spec in survey.sample.set_specs if ":" in spec]
    if not nested:
        raise NotApplicableError("the selected record is not in a set with levels")
    above = nested[0].rpartition(":")[0]
    query = survey.query("verb=ListIdentifiers&metadataPrefix={prefix}&from={moment}&until={moment}")
    walk = survey.walk(f"{query}&set={above}")
    found = survey.sample.identifier in walk.identifiers
    if not found and not walk.ended:
        raise CannotBeDoneError(f"the set {above} is too long to be read completely")
    return verdict(found, walk.pages[0], expected=f"{survey.sample.identifier}, which is in {nested[0]}")


def _sets(survey: Survey) -> list[OfferedSet]:
    if not survey.set_walk.pages:
        raise NotApplicableError("the provider has no sets")
    if not survey.sets:
        raise CannotBeDoneError("ListSets lists no sets")
    return survey.sets


def _whole(survey: Survey) -> list[OfferedSet]:
    found = _sets(survey)
    if not survey.set_walk.ended:
        raise CannotBeDoneError("there are more sets than were read")
    return found


def _on_list(survey: Survey, passed: object, expected: str, wrong: str) -> Verdict:
    came = wrong or f"{len(survey.sets):,} sets"
    return verdict(passed, survey.set_walk.pages[0], expected=expected, came=came)


def _seen(survey: Survey) -> str:
    return f"{survey.chosen_set}: {survey.set_records.described()}"
