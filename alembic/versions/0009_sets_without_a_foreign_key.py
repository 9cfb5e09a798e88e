"""A record's sets go with it by one statement for all records; no insert of them is checked one by one."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Put a trigger in the foreign key's place."""
    op.drop_constraint("fk_oai_set_mapping_record_id", "oai_set_mapping", type_="foreignkey")
    op.execute(
        """
        CREATE FUNCTION oai_forget_sets() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            DELETE FROM oai_set_mapping AS mapping USING gone WHERE mapping.record_id = gone.record_id;
            RETURN NULL;
        END
        $$
        """
    )
    op.execute(
        """
        CREATE TRIGGER forget_sets AFTER DELETE ON oai_record
        REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION oai_forget_sets()
        """
    )
