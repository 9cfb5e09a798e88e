"""Words and numbers that databases, queues, browsers and webhook receivers store, by purpose."""

from enum import Enum
from typing import Any

import harvester.bibliographic.conditions
import harvester.bibliographic.imports
import harvester.bibliographic.record
import harvester.bibliographic.search
import harvester.harvest.approval
import harvester.harvest.checkpoint
import harvester.harvest.verdict
import harvester.repositories
import harvester.store.audit
import harvester.store.models
import harvester.vocabulary
import manager.leader.lock
import manager.models
import manager.notices.models
import manager.queue
import oai.failure_codes
import oai.migrations
import oai.rights
import oai.vocabulary
import provider.aggregate.catalogue
import provider.aggregate.update
import provider.export.models
import provider.holdings.arcs
import provider.holdings.fixity
import provider.holdings.rules
import provider.holdings.unlisted
import provider.http.cdx
import provider.indexing.indexer
import provider.indexing.models
import provider.models
import provider.protocol.tokens
import web.auth.csrf
import web.auth.sessions
import web.models

_ENUMS: dict[str, type[Enum]] = {
    "access to a collection": provider.models.Access,
    "access protocol": harvester.vocabulary.AccessProtocol,
    "change of a record": harvester.vocabulary.Change,
    "channel of a notice": manager.notices.models.Channel,
    "deletion policy": harvester.vocabulary.DeletionPolicy,
    "deletion reason": harvester.vocabulary.DeletionReason,
    "end of a list": harvester.harvest.verdict.End,
    "export's format": provider.export.models.ExportForm,
    "export's state": provider.export.models.ExportState,
    "failure": oai.failure_codes.FailureCode,
    "fault of a file in the store": harvester.store.audit.StoreFindingKind,
    "fault of an archived document": provider.holdings.fixity.Fault,
    "harvest method": harvester.vocabulary.Method,
    "held run": harvester.harvest.approval.HoldKind,
    "held run's state": harvester.harvest.approval.HoldState,
    "indexed file's state": provider.indexing.models.IndexFileState,
    "job's status": manager.models.JobStatus,
    "kind of bibliographic record": harvester.bibliographic.record.RecordKind,
    "kind of notice": manager.notices.models.Kind,
    "kind of rule": harvester.vocabulary.RuleKind,
    "language": manager.notices.models.Language,
    "link": web.models.LinkKind,
    "note of a bibliographic record": harvester.bibliographic.record.NoteKind,
    "notice's state": manager.notices.models.NoticeState,
    "OAI error": oai.vocabulary.ErrorCode,
    "occasion of a notice": manager.notices.models.Occasion,
    "order of a search": harvester.bibliographic.search.SearchOrder,
    "operator of a condition": harvester.bibliographic.conditions.Operator,
    "overlap of jobs": harvester.vocabulary.Overlap,
    "record's status": harvester.vocabulary.RecordStatus,
    "right": oai.rights.Right,
    "role": oai.rights.Role,
    "run's status": harvester.vocabulary.RunStatus,
    "schedule's state": manager.models.RecurringState,
    "scope of a token": oai.rights.Scope,
    "slice of a list": harvester.vocabulary.Slice,
    "store audit's state": harvester.store.models.AuditState,
    "validation": harvester.vocabulary.Level,
    "verdict": harvester.vocabulary.Verdict,
}
_KEYS: dict[str, Any] = {
    "cookie of a session": web.auth.sessions._SESSION,  # noqa: SLF001
    "cookie of a form": web.auth.sessions._FORM,  # noqa: SLF001
    "field of a form's token": web.auth.csrf.FIELD,
    "lock: adding a repository": harvester.repositories._ADDING_LOCK,  # noqa: SLF001
    "lock: counting documents": provider.holdings.unlisted._LOCK,  # noqa: SLF001
    "lock: fence of the leader": manager.leader.lock._FENCE,  # noqa: SLF001
    "lock: import of a repository": harvester.bibliographic.imports._CLASS,  # noqa: SLF001
    "lock: index file": provider.indexing.indexer._FILE_CLASS,  # noqa: SLF001
    "lock: leader": manager.leader.lock._LOCK,  # noqa: SLF001
    "lock: name of an archive file": provider.holdings.arcs._NAME_CLASS,  # noqa: SLF001
    "lock: repository": harvester.harvest.checkpoint._CLASS,  # noqa: SLF001
    "lock: rules": provider.holdings.rules._TREE_LOCK,  # noqa: SLF001
    "lock: update of the aggregate": provider.aggregate.update.LOCK,
    "lock: upgrade": oai.migrations._UPGRADE_LOCK,  # noqa: SLF001
    "queue of harvests": manager.queue.QUEUE,
    "queue of index files": manager.queue.INDEX_QUEUE,
    "queue of exports": manager.queue.EXPORT_QUEUE,
    "queue of store audits": manager.queue.AUDIT_QUEUE,
    "signing: look-ups": provider.http.cdx.PURPOSE,
    "signing: tokens": provider.protocol.tokens.PURPOSE,
    "signing: tokens of the aggregate": provider.aggregate.catalogue.PURPOSE,
    "task of a harvest": manager.queue.TASK,
    "task of an export": manager.queue.EXPORT_TASK,
    "task of an index file": manager.queue.INDEX_TASK,
    "task of a store audit": manager.queue.AUDIT_TASK,
}


def stored_words() -> dict[str, Any]:
    """Return the values of each enumeration by member, and each key."""
    words = {name: {member.name: member.value for member in kind} for name, kind in _ENUMS.items()}
    return {"enumerations": words, "keys": _KEYS}
