"""One audit a day, in Airflow: a run is told its own day, so that days gone by can be audited too.

A day that the history has already is not audited again, so that a task may be repeated.
"""

from datetime import UTC, datetime

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG("sapwood_audit", schedule="30 3 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False):
    BashOperator(
        task_id="audit",
        bash_command=(
            "sapwood audit /srv/sapwood/logs --deployment /srv/sapwood/sites.csv --tree acme"
            " --day {{ macros.ds_add(ds, -1) }} --history /srv/sapwood/audits"
            " --out /srv/sapwood/report/{{ ds }}"
        ),
    )
