"""No user names and passwords of base URLs outside of `oai_repository.base_url`.

Earlier versions copied them into the audit log, notifications, reports of diagnostics, rejected records,
and names of repositories whose Identify repeats the address.
"""

from alembic import op

revision = "0063"
down_revision = "0062"
branch_labels = None
depends_on = None

_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*://"
_IN_TEXT = f"^({_SCHEME})[^/?#]*@"
# A string of a JSON document ends at the first quotation mark that is not escaped.
_IN_JSON = rf'("{_SCHEME})(?:[^/?#"\\]|\\.)*@'
_TEXTS = {
    "web_audit": ("object_id", "object_name"),
    "oai_repository": ("repository_name",),
    "oai_quarantine": ("url",),
}
_DOCUMENTS = {"web_audit": ("before", "after"), "notice": ("facts",), "oai_repository": ("examination",)}


def upgrade() -> None:
    """Remove them from the rows that have them; the first condition spares the others the expression."""
    for table, columns in _TEXTS.items():
        for column in columns:
            op.execute(
                rf"UPDATE {table} SET {column} = regexp_replace({column}, '{_IN_TEXT}', '\1')"  # noqa: S608 constants
                rf" WHERE {column} LIKE '%://%@%' AND {column} ~ '{_IN_TEXT}'"
            )
    for table, columns in _DOCUMENTS.items():
        for column in columns:
            text = f"CAST({column} AS text)"
            cleaned = rf"CAST(regexp_replace({text}, '{_IN_JSON}', '\1', 'g') AS jsonb)"
            op.execute(
                f"UPDATE {table} SET {column} = {cleaned}"  # noqa: S608 constants
                rf" WHERE {text} LIKE '%://%@%' AND {text} ~ '{_IN_JSON}'"
            )


def downgrade() -> None:
    """Do nothing: what was removed is not needed."""
