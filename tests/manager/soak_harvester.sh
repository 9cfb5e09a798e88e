# The soak test's harvester: the real one, or a small one that notices when it is not alone.
#
# Which of them it is says the metadata prefix: `alone` is the small one, which takes a lock of its repository,
# writes the history row and ends. All others are harvested by the harvester itself. The small one is psql, for
# an interpreter of Python takes twenty times as long to start.
option() {
    for word in $words; do
        case $word in "--$1="*) echo "${word#*=}" ;; esac
    done
}

words=$*
if [ "$(option metadata-prefix)" != alone ]; then
    exec "$SOAK_PYTHON" -m harvester "$@"
fi
# Its own exit codes have other meanings for the manager.
"$SOAK_PSQL" --no-psqlrc --quiet --output=/dev/null --set=ON_ERROR_STOP=1 \
    --set=repository_id="$(option repository-id)" --set=job_id="$(option job-id)" \
    --set=recurring_id="$(option recurring-id)" --set=process_id=$$ \
    "$(echo "$ZATVA_DATABASE_URL" | sed 's/+psycopg//')" <<'SQL' || exit 1
BEGIN;
SELECT CASE WHEN pg_try_advisory_lock(5267819, :repository_id) THEN 'completed' ELSE 'not alone' END AS status
\gset
SELECT pg_sleep(0.02);
INSERT INTO oai_history (harvest_start_time, repository_id, job_id, recurring_id, status, verdict,
                         metadata_prefix, process_id)
VALUES (now(), :repository_id, :job_id, :recurring_id, :'status', 'complete', 'alone', :process_id);
COMMIT;
SQL
