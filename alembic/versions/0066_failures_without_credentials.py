"""No user names and passwords of base URLs in failures, warnings and messages.

Earlier versions quoted the address of a request in them, and everyone who may see a run could read it.
"""

from alembic import op

revision = "0066"
down_revision = "0065"
branch_labels = None
depends_on = None

# Within a sentence, an address ends at the first blank; in a JSON document, a string ends at the first
# quotation mark that is not escaped.
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*://"
_IN_TEXT = rf"({_SCHEME})[^/?#\s]*@"
_IN_JSON = rf'({_SCHEME})(?:[^/?#\s"\\]|\\")*@'
_TEXTS = {
    "oai_history": ("failure_reason",),
    "oai_harvest": ("last_error",),
    "oai_recurring_job": ("state_reason",),
    "oai_quarantine": ("reason",),
    "bibliographic_import": ("failure_reason",),
    "bibliographic_omission": ("reason",),
    "notice": ("last_error",),
}
_DOCUMENTS = {
    "oai_history": ("failure_facts", "warnings", "warning_failures", "evidence"),
    "oai_harvest": ("last_failure", "warnings", "warning_failures"),
    "oai_recurring_job": ("state_failure",),
    "oai_job": ("waiting",),
    "oai_quarantine": ("failure_facts",),
    "oai_repository": ("examination", "profile"),
    "bibliographic_import": ("failure_facts",),
    "notice": ("facts",),
}


def upgrade() -> None:
    """Remove them from the rows that have them, in one pass over each table."""
    for table in dict.fromkeys((*_TEXTS, *_DOCUMENTS)):
        changes = [
            (column, column, rf"regexp_replace({column}, '{_IN_TEXT}', '\1', 'g')", _IN_TEXT)
            for column in _TEXTS.get(table, ())
        ]
        for column in _DOCUMENTS.get(table, ()):
            text = f"CAST({column} AS text)"
            cleaned = rf"CAST(regexp_replace({text}, '{_IN_JSON}', '\1', 'g') AS jsonb)"
            changes.append((column, text, cleaned, _IN_JSON))
        assigned = ", ".join(f"{column} = {cleaned}" for column, _, cleaned, _ in changes)
        # The first condition of each spares most rows the expression.
        found = " OR ".join(
            f"({text} LIKE '%://%@%' AND {text} ~ '{pattern}')" for _, text, _, pattern in changes
        )
        op.execute(f"UPDATE {table} SET {assigned} WHERE {found}")  # noqa: S608 constants


def downgrade() -> None:
    """Do nothing: what was removed is not needed."""
