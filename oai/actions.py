"""Every change that a user or program can make: its verb, and the page, operation and command that make it.

The audit log takes its verbs from here, whichever surface a change comes from. A test compares this table
with the actual routes, operations and commands: a new one must be added here or to the test's exceptions, and
an action that a surface lacks must state the reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

AUDITED: Final = "ZATVA_AUDITED"
"""Environment variable set for commands that the dashboard starts, which has already written the entry."""
_API: Final = "/api/v1"


def _never(_arguments: Mapping[str, Any]) -> bool:
    return False


def _is_dry_run(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["dry_run"])


def _given_none_of(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda arguments: all(arguments[name] is None for name in names)


@dataclass(frozen=True, kw_only=True)
class Action:
    """A change, identified by its verb, such as `schedule.pause`."""

    verb: str
    title: str
    """What people read instead of the verb; the dashboard translates it."""
    pages: tuple[str, ...] = ()
    """Dashboard routes that receive the POST, as they are declared: `/schedules/{id}/pause`."""
    api: str | None = None
    """Method and path of the API operation, below the API's prefix: `DELETE /schedules/{schedule}`."""
    command: str | None = None
    """The command without `zatva`: `schedule pause`."""
    target: str | None = None
    """The command's argument that names the object; None if the command creates it or acts on none."""
    previews: Callable[[Mapping[str, Any]], bool] = _never
    """Return whether the command, called with these arguments, only shows something."""
    shows_secret: bool = False
    """The page answers with a link or token that is shown once, instead of a redirect."""
    kind: str = ""
    """The kind of object, when it is not the verb's first part."""
    lacks: str = ""
    """Why a surface lacks the action; empty when page, API and command all have it."""

    @property
    def object_kind(self) -> str:
        """The kind of object that the action changes: `schedule`."""
        return self.kind or self.verb.partition(".")[0]

    @property
    def routes(self) -> tuple[str, ...]:
        """Method and path of every route that makes the change."""
        pages = tuple(f"POST {page}" for page in self.pages)
        if self.api is None:
            return pages
        method, _space, path = self.api.partition(" ")
        return (*pages, f"{method} {_API}{path}")


_ACCOUNT: Final = "people sign in and change their own account in the dashboard; programs use tokens"
_LINKS: Final = "a one-time link is for a person; programs sign in with tokens"
_EACH: Final = "API and command line run, pause and resume each schedule of the repository"
_CARD: Final = "the link is for a person, who opens it in a browser"
_NO_FETCH: Final = "the command line harvests everything again (`zatva harvest ID --full`), not one record"
_NO_NAME: Final = "the command line moves a collection; name and description are for readers of the dashboard"
_NO_RUN_COMMAND: Final = "the history is removed where it is read: in the dashboard, or over the API"
_TITLES: Final = "programs import by command, a person looks at the plan first and approves it"
_SERVER: Final = "works on files or processes of the machine on which the command runs"
_SERVER_KEYS: Final = "whoever took over a session must not be able to end what harvesters have begun"

ACTIONS: Final = (
    Action(verb="keys.rotate", title="Replace signing keys", command="keys rotate", lacks=_SERVER_KEYS),
    Action(verb="repository.add", title="Add repository", pages=("/repositories/new",),
           api="POST /repositories", command="repository add"),
    Action(verb="repository.edit", title="Edit repository", pages=("/repositories/{id}/settings",),
           api="PATCH /repositories/{repository}", command="repository edit", target="id"),
    Action(verb="repository.repair", title="Add repair of answers", pages=("/errors/{id}/repair",),
           kind="repository", lacks="it proposes what `repository edit --repair` and its operation set"),
    Action(verb="repository.policy", title="Set policy for deletions", command="repository policy",
           target="id", lacks="page and API change it with the other settings, as repository.edit",
           previews=_given_none_of("deletion_policy", "brake_deletions", "brake_updates")),
    Action(verb="repository.refresh", title="Refresh repository details",
           pages=("/repositories/{id}/refresh",), api="POST /repositories/{repository}/refresh",
           command="repository refresh", target="id"),
    Action(verb="repository.unlock", title="Unlock repository", pages=("/repositories/{id}/unlock",),
           api="DELETE /repositories/{repository}/lock", command="repository unlock", target="id"),
    Action(verb="repository.run", title="Run schedules of repositories",
           pages=("/repositories/selected/run",), lacks=_EACH),
    Action(verb="repository.pause", title="Pause schedules of repositories",
           pages=("/repositories/selected/pause",), lacks=_EACH),
    Action(verb="repository.resume", title="Resume schedules of repositories",
           pages=("/repositories/selected/resume",), lacks=_EACH),
    Action(verb="repository.remove", title="Remove repository",
           pages=("/repositories/{id}/remove", "/repositories/selected/remove"),
           api="DELETE /repositories/{repository}", command="repository remove", target="id"),
    Action(verb="repository.share-report", title="Share report card", pages=("/repositories/{id}/card",),
           lacks=_CARD, shows_secret=True),
    Action(verb="repository.unshare-report", title="Revoke link to report card",
           pages=("/repositories/{id}/card/revoke",), lacks=_CARD),
    Action(verb="repository.check-shared", title="Check repository from report card",
           pages=("/cards/{card}/check",), kind="repository", lacks=_CARD),
    Action(verb="repository.diagnose", title="Run diagnostics", pages=("/repositories/{id}/doctor",),
           api="POST /repositories/{repository}/diagnostics", command="repository doctor", target="which",
           previews=lambda given: given["last"] or not given["which"].isdecimal()),
    Action(verb="repository.harvest", title="Harvest repository", pages=("/repositories/{id}/harvest",),
           api="POST /repositories/{repository}/sample", command="harvest", target="repository",
           previews=_is_dry_run),
    Action(verb="schedule.add", title="Add schedule", pages=("/schedules/new",), api="POST /schedules",
           command="schedule add", previews=_is_dry_run),
    Action(verb="schedule.edit", title="Edit schedule", pages=("/schedules/{id}/edit",),
           api="PUT /schedules/{schedule}", command="schedule edit", target="recurring_id"),
    Action(verb="schedule.pause", title="Pause schedule", pages=("/schedules/{id}/pause",),
           api="POST /schedules/{schedule}/pause", command="schedule pause", target="recurring_id"),
    Action(verb="schedule.resume", title="Resume schedule", pages=("/schedules/{id}/resume",),
           api="POST /schedules/{schedule}/resume", command="schedule resume", target="recurring_id"),
    Action(verb="schedule.run", title="Run schedule now", pages=("/schedules/{id}/run",),
           api="POST /schedules/{schedule}/run", command="schedule run", target="recurring_id"),
    Action(verb="schedule.harvest-all", title="Harvest everything once with changed rules",
           pages=("/schedules/{id}/harvest-all",), lacks="`zatva harvest --full` requests all records"),
    Action(verb="schedule.sample", title="Run sample", pages=("/schedules/{id}/sample",),
           api="POST /schedules/{schedule}/sample", command="schedule sample", target="recurring_id"),
    Action(verb="schedule.remove", title="Remove schedule", pages=("/schedules/{id}/remove",),
           api="DELETE /schedules/{schedule}", command="schedule remove", target="recurring_id"),
    Action(verb="job.run", title="Run job now", pages=("/jobs/{id}/run",), api="POST /jobs/{job}/run",
           command="job run", target="job_id"),
    Action(verb="job.pause", title="Pause harvest", pages=("/jobs/{id}/pause",), api="POST /jobs/{job}/pause",
           command="job pause", target="job_id"),
    Action(verb="job.resume", title="Resume harvest", pages=("/jobs/{id}/resume",),
           api="POST /jobs/{job}/resume", command="job resume", target="job_id"),
    Action(verb="job.stop", title="Stop harvest", pages=("/jobs/{id}/stop",), api="POST /jobs/{job}/stop",
           command="job stop", target="job_id"),
    Action(verb="job.kill", title="Kill harvest", pages=("/jobs/{id}/kill",), api="POST /jobs/{job}/kill",
           command="job kill", target="job_id"),
    Action(verb="job.remove", title="Remove job", pages=("/jobs/{id}/remove",), api="DELETE /jobs/{job}",
           command="job remove", target="job_id"),
    Action(verb="run.release", title="Approve mass change", pages=("/runs/{id}/release",),
           api="POST /runs/{run}/release", command="job release", target="history_id",
           previews=lambda given: bool(given["show"])),
    Action(verb="run.remove", title="Remove run from history", pages=("/runs/{id}/remove", "/runs/remove"),
           api="DELETE /runs/{run}", lacks=_NO_RUN_COMMAND),
    Action(verb="error.fetch", title="Fetch record again", pages=("/errors/{id}/again",),
           api="POST /errors/{error}/again", lacks=_NO_FETCH),
    Action(verb="rule.add", title="Add rule", pages=("/rules/new",), api="POST /rules", command="rule add",
           target="name"),
    Action(verb="rule.edit", title="Edit rule", pages=("/rules/{id}/edit",), api="PUT /rules/{rule}",
           command="rule edit", target="rule"),
    Action(verb="rule.restore", title="Restore version of rule", pages=("/rules/{id}/restore",),
           lacks="API and command save the earlier version's text as rule.edit"),
    Action(verb="rule.harvest-all", title="Harvest everything once with the rule",
           pages=("/rules/{id}/harvest-all",), lacks="`zatva harvest --full` requests all records"),
    Action(verb="rule.remove", title="Remove rule", pages=("/rules/{id}/remove",), api="DELETE /rules/{rule}",
           command="rule remove", target="rule"),
    Action(verb="rule.replay", title="Apply rule to stored records", pages=("/rules/{id}/replay",),
           api="POST /rules/{rule}/replay", command="rule replay", previews=lambda given: not given["apply"]),
    Action(verb="notification.add", title="Add notification rule", pages=("/alerts/rules/new",),
           api="POST /alert-rules", command="notify add", kind="notification rule", shows_secret=True),
    Action(verb="notification.edit", title="Edit notification rule", pages=("/alerts/rules/{id}",),
           api="PUT /alert-rules/{alert_rule}", kind="notification rule", shows_secret=True,
           lacks="at the command line a rule is removed and added: it has no state to keep"),
    Action(verb="notification.remove", title="Remove notification rule", pages=("/alerts/rules/{id}/remove",),
           api="DELETE /alert-rules/{alert_rule}", command="notify remove", target="rule_id",
           kind="notification rule"),
    Action(verb="notification.test", title="Send test notification", pages=("/alerts/rules/{id}/test",),
           api="POST /alert-rules/{alert_rule}/test", command="notify test", target="rule_id",
           kind="notification rule"),
    Action(verb="notification.key", title="Replace signing key of notifications",
           pages=("/alerts/rules/{id}/key",), api="POST /alert-rules/{alert_rule}/key",
           command="notify replace-key", target="rule_id", kind="notification rule", shows_secret=True),
    Action(verb="notification.resend", title="Send confirmation links again",
           pages=("/alerts/rules/{id}/confirmations",), api="POST /alert-rules/{alert_rule}/confirmations",
           command="notify resend", target="rule_id", kind="notification rule"),
    Action(verb="notification.confirm", title="Confirm notification address", pages=("/alerts/confirm",),
           command="notify confirm", target="rule_id", kind="notification rule",
           lacks="the recipient confirms by the link in the mail, an administrator at the command line"),
    Action(verb="import.source", title="Change import settings", pages=("/imports/{id}",),
           api="PUT /repositories/{repository}/import-source", command="import source", target="id",
           kind="import source", previews=_given_none_of("record_url", "after_harvest", "set", "format")),
    Action(verb="import.run", title="Import records", pages=("/imports",),
           api="POST /repositories/{repository}/imports", command="import run", kind="import source"),
    Action(verb="filtering-set.add", title="Add filtering set", pages=("/imports/sets/new",),
           api="POST /filtering-sets", command="import set add", target="name", kind="filtering set"),
    Action(verb="filtering-set.edit", title="Edit filtering set", pages=("/imports/sets/{id}/edit",),
           api="PUT /filtering-sets/{filtering_set}", command="import set edit", target="name",
           kind="filtering set"),
    Action(verb="filtering-set.remove", title="Remove filtering set", pages=("/imports/sets/{id}/remove",),
           api="DELETE /filtering-sets/{filtering_set}", command="import set remove", target="name",
           kind="filtering set"),
    Action(verb="collection.add", title="Create collection", pages=("/archive/collections/new",),
           api="POST /archive/collections", command="provider collection add", target="spec"),
    Action(verb="collection.edit", title="Edit collection", pages=("/archive/collections/{spec}/name",),
           api="PATCH /archive/collections/{collection}", lacks=_NO_NAME),
    Action(verb="collection.access", title="Change access to collection",
           pages=("/archive/collections/{spec}/rule",), api="PUT /archive/collections/{collection}/rule",
           command="provider collection access", target="spec", previews=_is_dry_run),
    Action(verb="collection.move", title="Move collection", api="POST /archive/collections/{collection}/move",
           command="provider collection move", target="spec",
           lacks="the dashboard has no page that moves a collection: its setSpec is what harvesters know"),
    Action(verb="collection.assign", title="Add documents to collection",
           pages=("/archive/collections/{spec}/documents",),
           api="POST /archive/collections/{collection}/assign", command="provider collection assign",
           target="spec", previews=_is_dry_run),
    Action(verb="collection.take-out", title="Remove documents from collection",
           pages=("/archive/collections/{spec}/documents",),
           api="POST /archive/collections/{collection}/take-out", command="provider collection remove",
           target="spec", previews=_is_dry_run),
    Action(verb="collection.remove", title="Remove collection", pages=("/archive/collections/{spec}/remove",),
           api="DELETE /archive/collections/{collection}", command="provider collection drop", target="spec"),
    Action(verb="document.hide", title="Hide document", pages=("/archive/documents/{key}/hide",),
           api="POST /archive/documents/{document}/hide", command="provider hide", target="document"),
    Action(verb="document.unhide", title="Show document", pages=("/archive/documents/{key}/unhide",),
           api="POST /archive/documents/{document}/unhide", command="provider unhide", target="document"),
    Action(verb="archive.redate", title="Give records a new datestamp", command="provider redate",
           kind="archive", lacks=_SERVER),
    Action(verb="mute.add", title="Mute notifications", pages=("/alerts/mutes/new",), api="POST /mutes",
           command="notify mute"),
    Action(verb="mute.end", title="End mute of notifications", pages=("/alerts/mutes/{id}/end",),
           api="POST /mutes/{mute}/end", command="notify unmute", target="mute_id"),
    Action(verb="run.acknowledge", title="Acknowledge failure", pages=("/runs/{id}/acknowledge",),
           api="POST /runs/{run}/acknowledge", command="notify acknowledge", target="history_id"),
    Action(verb="takedown.add", title="Add take-down", pages=("/archive/takedowns/new",),
           api="POST /archive/takedowns", command="provider takedown add", kind="takedown",
           previews=_is_dry_run),
    Action(verb="takedown.lift", title="End take-down", pages=("/archive/takedowns/{id}/lift",),
           api="POST /archive/takedowns/{takedown}/lift", command="provider takedown lift", target="number"),
    Action(verb="archive.check", title="Run self-test", pages=("/archive/check",), api="POST /archive/checks",
           kind="self-test", lacks="`zatva provider check` prints its result and keeps nothing"),
    Action(verb="archive.index", title="Index files", pages=("/archive/indexing/files",),
           api="POST /archive/indexing", command="provider index", kind="archive"),
    Action(verb="export.prepare", title="Prepare file for download", pages=("/archive/exports",),
           api="POST /archive/exports", command="provider exports prepare"),
    Action(verb="export.remove", title="Remove file prepared for download",
           pages=("/archive/exports/{id}/remove",), api="DELETE /archive/exports/{export}",
           command="provider exports remove", target="export_id"),
    Action(verb="archive.reindex-keys", title="Compute URL keys again", command="provider reindex-keys",
           kind="archive", lacks=_SERVER),
    Action(verb="archive.access-refresh", title="Apply access rules again", command="provider access refresh",
           kind="archive", lacks=_SERVER),
    Action(verb="archive.aggregate-update", title="Update aggregate", command="provider aggregate update",
           kind="archive", lacks=_SERVER),
    Action(verb="aggregate.add", title="Add repository to aggregate", pages=("/archive/aggregate",),
           api="POST /archive/aggregate/sources", command="provider aggregate add", target="repository",
           kind="aggregate source"),
    Action(verb="aggregate.remove", title="Withdraw repository from aggregate",
           pages=("/archive/aggregate/{id}/remove",), api="DELETE /archive/aggregate/sources/{repository}",
           command="provider aggregate remove", target="repository", kind="aggregate source"),
    Action(verb="titles.import", title="Import list of titles",
           pages=("/archive/titles/import", "/archive/titles/import/seeder"),
           command="provider titles import", kind="titles", lacks=_TITLES, previews=_is_dry_run),
    Action(verb="titles.enrich", title="Add catalogue data to titles", command="provider titles enrich",
           kind="titles", lacks=_SERVER, previews=_is_dry_run),
    Action(verb="titles.update", title="Update titles", command="provider titles update", kind="titles",
           lacks=_SERVER),
    Action(verb="store.rebuild", title="Rebuild store", command="store rebuild", target="repository",
           kind="repository", lacks=_SERVER),
    Action(verb="store-audit.run", title="Audit store", pages=("/repositories/{id}/store-audits",),
           api="POST /repositories/{repository}/store-audits", command="store audit run", target="repository",
           kind="repository"),
    Action(verb="store-audit.schedule", title="Set schedule of store audits",
           pages=("/store-audits/schedules",), api="POST /store-audit-schedules",
           command="store audit schedule set", kind="audit schedule"),
    Action(verb="store-audit.unschedule", title="Remove schedule of store audits",
           pages=("/store-audits/schedules/{id}/remove",),
           api="DELETE /store-audit-schedules/{audit_schedule}", command="store audit schedule remove",
           target="schedule_id", kind="audit schedule"),
    Action(verb="user.add", title="Add user", pages=("/admin/users/new",), api="POST /users",
           command="user add", target="name", shows_secret=True),
    Action(verb="user.role", title="Change role of user", pages=("/admin/users/{id}",),
           api="PUT /users/{user}", command="user role", target="name"),
    Action(verb="user.invite", title="Invite user", pages=("/admin/users/{id}/invite",),
           command="user invite", target="name", lacks=_LINKS, shows_secret=True),
    Action(verb="user.link", title="Create sign-in link", pages=("/admin/users/{id}/link",),
           command="user link", target="name", lacks=_LINKS, shows_secret=True),
    Action(verb="user.disable", title="Disable user", pages=("/admin/users/{id}/disable",),
           api="POST /users/{user}/disable", command="user disable", target="name"),
    Action(verb="user.enable", title="Enable user", pages=("/admin/users/{id}/enable",),
           api="POST /users/{user}/enable", command="user enable", target="name"),
    Action(verb="user.reset-second-factor", title="Reset second factor",
           pages=("/admin/users/{id}/second-factor",), api="DELETE /users/{user}/second-factor",
           command="user reset-second-factor", target="name"),
    Action(verb="organisation.add", title="Add organisation", pages=("/admin/organisations/new",),
           api="POST /organisations", command="organisation add", target="short_name"),
    Action(verb="organisation.edit", title="Edit organisation", pages=("/admin/organisations/{id}",),
           api="PUT /organisations/{organisation}",
           lacks="the command line adds and removes organisations; names and limits change in the dashboard"),
    Action(verb="organisation.limit", title="Change limits of organisation", command="organisation limit",
           target="short_name", kind="organisation",
           lacks="pages and API change names and limits together: organisation.edit"),
    Action(verb="organisation.give", title="Change owner of repository",
           pages=("/admin/organisations/{id}/repositories",), api="PUT /repositories/{repository}/owner",
           command="organisation give", target="repository", kind="repository"),
    Action(verb="organisation.remove", title="Remove organisation",
           pages=("/admin/organisations/{id}/remove",), api="DELETE /organisations/{organisation}",
           command="organisation remove", target="short_name"),
    Action(verb="token.add", title="Create token", pages=("/account/tokens",),
           api="POST /users/{user}/tokens", command="token add", shows_secret=True),
    Action(verb="token.revoke", title="Revoke token",
           pages=("/account/tokens/{id}/revoke", "/admin/tokens/{id}/revoke"), api="DELETE /tokens/{token}",
           command="token revoke", target="token_id"),
    Action(verb="account.password", title="Set own password", pages=("/account/password",), kind="user",
           lacks=_ACCOUNT),
    Action(verb="account.language", title="Change own language", pages=("/account/language",), kind="user",
           lacks=_ACCOUNT),
    Action(verb="account.time-zone", title="Change own time zone", pages=("/account/time-zone",), kind="user",
           lacks=_ACCOUNT),
    Action(verb="account.session", title="Sign out other browsers", pages=("/account/sessions/end",),
           kind="user", lacks=_ACCOUNT),
    Action(verb="account.second-factor", title="Turn on own second factor",
           pages=("/account/second-factor/enable",), kind="user", lacks=_ACCOUNT, shows_secret=True),
    Action(verb="account.second-factor-off", title="Turn off own second factor",
           pages=("/account/second-factor/disable",), kind="user", lacks=_ACCOUNT),
    Action(verb="account.recovery-codes", title="Create new recovery codes",
           pages=("/account/second-factor/codes",), kind="user", lacks=_ACCOUNT, shows_secret=True),
    Action(verb="account.openid", title="Connect own account with OpenID", pages=("/account/openid/connect",),
           kind="user", lacks=_ACCOUNT),
    Action(verb="account.openid-off", title="Disconnect own account from OpenID",
           pages=("/account/openid/disconnect",), kind="user", lacks=_ACCOUNT),
    Action(verb="sign-in", title="Sign in", pages=("/sign-in",), kind="user", lacks=_ACCOUNT),
    Action(verb="sign-in.code", title="Sign in with second factor", pages=("/sign-in/code",), kind="user",
           lacks=_ACCOUNT),
    Action(verb="sign-in.again", title="Sign in again", pages=("/sign-in/again",), kind="user",
           lacks=_ACCOUNT),
    Action(verb="sign-out", title="Sign out", pages=("/sign-out",), kind="user", lacks=_ACCOUNT),
    Action(verb="worker.drain", title="Drain worker", command="worker drain", target="worker_id",
           kind="worker", pages=("/admin/workers/{id}/drain",), api="POST /workers/{worker}/drain"),
    Action(verb="digest.ask", title="Request digest", pages=("/cards/{card}/digest",), kind="repository",
           lacks=_CARD),
    Action(verb="digest.answer", title="Confirm or stop digest", pages=("/digests/{digest}",),
           kind="repository", lacks=_CARD),
    Action(verb="mail.test", title="Send test mail", pages=("/admin/health/mail",), kind="mail",
           lacks="a person looks into the mailbox; `notify test` sends to the recipients of a rule"),
)  # fmt: skip


def action_of_route(method: str, path: str) -> Action | None:
    """Return the action of a declared route, such as `POST`, `/schedules/{id}/pause`."""
    return _BY_ROUTE.get(f"{method} {path}")


def action_of_command(command: str) -> Action | None:
    """Return the action of a command, which is given without `zatva`."""
    return _BY_COMMAND.get(command)


def _old_words(action: Action) -> tuple[str, ...]:
    """Return the verbs that earlier versions stored: `schedules.pause`, `api.v1.schedules.pause`."""
    words = []
    for route in action.routes:
        method, _space, path = route.partition(" ")
        parts = [part for part in path.split("/") if part and not part.startswith("{")]
        words.append(".".join(parts if method == "POST" else [*parts, method.lower()]))
    return tuple(words)


_BY_ROUTE: Final = {route: action for action in ACTIONS for route in action.routes}
_BY_COMMAND: Final = {action.command: action for action in ACTIONS if action.command}
_BY_VERB: Final = {action.verb: action for action in ACTIONS}
OLD_WORDS: Final = {action.verb: _old_words(action) for action in ACTIONS}
VERB_OF_OLD: Final = {
    old: verb for verb, words in reversed(OLD_WORDS.items()) for old in words if old not in _BY_VERB
}
"""Today's verb of a verb that earlier versions stored; the first of several that a route can mean."""
VERB_TITLES: Final[Mapping[str, str]] = {
    **{action.verb: action.title for action in ACTIONS},
    "sign-in.refused": "Sign in with wrong credentials",
    "sign-in.limited": "Sign in after too many attempts",
    "alerts.export": "Export notification rules",
    "audit.export": "Export audit log",
    "bibliographic-records.export": "Export bibliographic records",
    "captures.export": "Export captures",
    "collections.export": "Export collections",
    "deliveries.export": "Export sent notifications",
    "errors.export": "Export errors of run",
    "harvesters.export": "Export harvesters",
    "imports.export": "Export imports",
    "indexing.export": "Export indexing runs",
    "jobs.export": "Export current jobs",
    "lists.export": "Export lists of harvester",
    "organisations.export": "Export organisations",
    "problems.export": "Export indexing problems",
    "records.export": "Export harvested records",
    "repositories.export": "Export repositories",
    "runs.export": "Export history",
    "schedules.export": "Export schedules",
    "self-tests.export": "Export self-tests",
    "sets_exports.export": "Export sets",
    "take-downs.export": "Export take-downs",
    "titles.export": "Export titles",
    "titles-not-taken.export": "Export what an import of titles leaves out",
    "tokens.export": "Export API tokens",
    "users.export": "Export users",
}
"""What people read instead of a verb, in English: an action, a refused sign-in, or an exported list."""


def title_of(verb: str) -> str:
    """Return the English title of a stored verb, also of an earlier version's; otherwise the verb itself."""
    return VERB_TITLES.get(VERB_OF_OLD.get(verb, verb), verb)
