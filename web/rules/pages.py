"""Rules: list, one rule with its versions, ready examples."""

import re
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.rule_lab import versions
from harvester.rule_lab.examples import EXAMPLES
from harvester.rule_lab.files import read_file
from harvester.rule_lab.models import Rule, RuleVersion
from harvester.rule_lab.versions import AGAIN, FOUND, as_text, difference, list_rules, list_versions
from harvester.vocabulary import RuleKind
from manager.rule_usage import last_runs, uses_of
from manager.schedules.service import find_schedules
from oai.settings import Settings
from web.auth.access import Right, about, asked_for, needs, visible_repositories, who_asks
from web.auth.sessions import SignedIn
from web.rules.unapplied import unapplied
from web.site.faults import conflicts
from web.site.forms import BASED_ON
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import as_number, number_in, page_of
from web.site.params import NUMBER, choice_in
from web.site.render import confirmation, render

_PAGE: Final = 100
_VERSIONS: Final = 50
_OTHERS: Final = 20
"""Schedules that a rule's page offers to use it in."""
_AGAIN: Final = re.compile(AGAIN % {"number": r"(?P<number>\d+)"})


def kinds() -> dict[str, str]:
    """Return the kinds of rules with labels."""
    return {RuleKind.FILTER.value: _("Filter rules"), RuleKind.NORMALISE.value: _("Normalise rules")}


async def listing(request: web.Request) -> web.Response:
    """List the rules of one kind or both, in pages."""
    kind = choice_in(request, "kind", list(RuleKind))
    after = number_in(request, "after") or 0
    found = await database_of(request).run(
        list_rules,
        among=visible_repositories(who_asks(request)),
        kind=RuleKind(kind) if kind else None,
        after=after,
        limit=_PAGE + 1,
    )
    return render(
        request,
        "rules.html",
        page=page_of(found, lambda view: view.rule.rule_id, behind=after, size=_PAGE),
        kind=kind,
        kinds=kinds(),
    )


async def show(request: web.Request) -> web.Response:
    """Show one rule: its file, its users, and its versions with their changes."""
    rule = await rule_of(request)
    settings = request.config_dict[SETTINGS]
    facts = await database_of(request).run(_facts, settings, who_asks(request), rule)
    return render(request, "rule.html", rule=rule, kinds=kinds(), **facts)


async def examples(request: web.Request) -> web.Response:
    """Show ready examples of both kinds."""
    shown = [(one, _(one.title), _(one.about), as_text(one.content)) for one in EXAMPLES]
    return render(request, "rule_examples.html", examples=shown, kinds=kinds())


@needs(Right.HARVEST)
async def restore(request: web.Request) -> web.Response:
    """Make an old version the current one again."""
    rule = await rule_of(request)
    posted = await request.post()
    number, based_on = (as_number(str(posted.get(name, ""))) for name in ("version", BASED_ON))
    if number is None:
        raise web.HTTPBadRequest(text=_("Choose a version."))
    settings, name = request.config_dict[SETTINGS], who_asks(request).name
    with conflicts():
        saved = await database_of(request).run(
            versions.restore, settings, rule.rule_id, number, by=name, based_on=based_on
        )
    about(request, "rule", rule.rule_id, rule.name, version=saved.number)
    raise web.HTTPSeeOther(f"/rules/{rule.rule_id}?done=rule-restored")


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a rule is removed."""
    rule = await rule_of(request)
    return confirmation(
        request,
        _("Remove %(name)s?") % {"name": rule.name},
        _("Its versions are deleted permanently."),
        _("Its file %(path)s is kept, and schedules that use the file still read it.") % {"path": rule.path},
        steps=[(_("Rules"), "/rules"), (rule.name, f"/rules/{rule.rule_id}")],
        button=_("Remove rule"),
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the rule from the managed ones."""
    rule = await rule_of(request)
    await database_of(request).run(versions.remove_rule, rule.rule_id)
    raise web.HTTPSeeOther("/rules?done=rule-removed")


async def rule_of(request: web.Request) -> Rule:
    """Return the rule in the path; respond 404 if it does not exist or the user may not see it."""
    rule = await asked_for(request, Rule)
    about(request, "rule", rule.rule_id, rule.name)
    return rule


def _note_of(version: RuleVersion) -> str:
    """Return the note of a version; those that Zatva writes are said in the reader's language."""
    if version.note == FOUND:
        return ""  # the page marks each version that was found in the file
    again = _AGAIN.fullmatch(version.note)
    return _("version %(number)s again") % again.groupdict() if again else version.note


def _facts(session: Session, settings: Settings, who: SignedIn, rule: Rule) -> Mapping[str, Any]:
    among = visible_repositories(who)
    found = list_versions(session, rule.rule_id, most=_VERSIONS + 1)
    shown = [
        (version, difference(older, version, title=_("version %(number)s")))
        for version, older in zip(found, [*found[1:], None], strict=True)
    ][:_VERSIONS]
    content = read_file(settings, rule)
    fault = None if content is None else versions.usable(content, rule)
    repository = session.get(Repository, rule.repository_id) if rule.repository_id else None
    uses = uses_of(session, settings, rule, among=among)
    used = {use.schedule_id for use in uses}
    changed = {schedule.id for schedule in unapplied(session, settings, who, rule)}
    others = find_schedules(session, repository_id=rule.repository_id, among=among, limit=_OTHERS + len(used))
    return {
        "others": [one for one in others if one.schedule.id not in used][:_OTHERS],
        "versions": shown,
        "notes": {version.number: _note_of(version) for version in found},
        "runs": last_runs(session, rule, found, among=among),
        "uses": uses,
        "uses_unapplied": [use for use in uses if use.schedule_id in changed],
        "unapplied_more": len(changed - used),
        "text": as_text(found[0].content),
        "missing": content is None,
        "differs": content is not None and content != found[0].content,
        "fault": error_text(fault) if fault else "",
        "repository": repository,
    }


ROUTES: Final = (
    web.get("/rules", listing),
    web.get("/rules/examples", examples),
    web.get(f"/rules/{NUMBER}", show),
    web.post(f"/rules/{NUMBER}/restore", restore),
    web.get(f"/rules/{NUMBER}/remove", confirm_removal),
    web.post(f"/rules/{NUMBER}/remove", remove),
)
