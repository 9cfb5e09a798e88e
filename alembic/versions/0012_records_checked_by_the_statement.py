"""That the repository of records exists is checked once for a statement, and no longer for each record."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# As a foreign key does it, whoever inserts locks the repository, so nobody removes it before the commit; and
# whoever removes it first is waited for.
_CHECK = """
CREATE FUNCTION oai_check_repository() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    number integer;
BEGIN
    FOR number IN SELECT DISTINCT repository_id FROM fresh LOOP
        PERFORM FROM oai_repository WHERE repository_id = number FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE foreign_key_violation
                USING MESSAGE = format('there is no repository %s, so it can have no records', number),
                      TABLE = 'oai_record', COLUMN = 'repository_id';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$
"""
_STAY = """
CREATE FUNCTION oai_stay_in_repository() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RAISE foreign_key_violation
        USING MESSAGE = format('record %s stays in its repository', OLD.record_id),
              TABLE = 'oai_record', COLUMN = 'repository_id';
END
$$
"""
_FORGET = """
CREATE FUNCTION oai_forget_records() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM oai_record AS record USING gone WHERE record.repository_id = gone.repository_id;
    RETURN NULL;
END
$$
"""


def upgrade() -> None:
    """Put triggers in the foreign key's place."""
    op.drop_constraint("fk_oai_record_repository_id", "oai_record", type_="foreignkey")
    for function in (_CHECK, _STAY, _FORGET):
        op.execute(function)
    op.execute(
        """
        CREATE TRIGGER check_repository AFTER INSERT ON oai_record
        REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION oai_check_repository()
        """
    )
    op.execute(
        """
        CREATE TRIGGER stay_in_repository BEFORE UPDATE OF repository_id ON oai_record FOR EACH ROW
        WHEN (OLD.repository_id <> NEW.repository_id) EXECUTE FUNCTION oai_stay_in_repository()
        """
    )
    op.execute(
        """
        CREATE TRIGGER forget_records AFTER DELETE ON oai_repository
        REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION oai_forget_records()
        """
    )
