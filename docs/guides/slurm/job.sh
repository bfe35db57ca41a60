#!/bin/bash
# An archive job on every node of an allocation, on Dask:
#   sbatch --nodes 4 job.sh embed manifest.csv --model checkpoint --out /shared/job --index /shared/index
# Submit the same line again to resume. WORKERS: processes a task, by default one a core. With GPUs
# give each task one: sbatch --ntasks-per-node 8 --gpus-per-task 1 … --device cuda
# KEYS_IN: a folder that all nodes see. PYTHON: the environment's.
#SBATCH --job-name=cxrtext-job
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@60
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=cxrtext-job-%j.log

: "${1:?embed, and its arguments}"
PYTHON=${PYTHON:-python}
export HF_HUB_OFFLINE=1
# A node that is gone without a word is noticed after a minute.
export DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=60s

# Whoever reaches a port of Dask's runs programs as you: only holders of this job's key may.
KEYS=$(mktemp -d "${KEYS_IN:-$HOME}/.cxrtext-job-XXXXXX") || exit 1
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
    -subj "/CN=cxrtext-job" -keyout "$KEYS/key.pem" -out "$KEYS/cert.pem" 2> /dev/null || exit 1
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$KEYS/cert.pem
for ROLE in SCHEDULER WORKER CLIENT; do
    export "DASK_DISTRIBUTED__COMM__TLS__${ROLE}__CERT=$KEYS/cert.pem"
    export "DASK_DISTRIBUTED__COMM__TLS__${ROLE}__KEY=$KEYS/key.pem"
done

"$PYTHON" -m dask scheduler --protocol tls --host "$(hostname)" --port 0 --no-dashboard \
    --scheduler-file "$KEYS/scheduler.json" &
SCHEDULER=$!
for _ in $(seq 120); do
    [ -s "$KEYS/scheduler.json" ] && break
    sleep 1
done
ADDRESS=$("$PYTHON" -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' \
    "$KEYS/scheduler.json") || exit 1

GPU=()
if [ -n "${SLURM_GPUS_PER_TASK:-}" ]; then
    GPU=(--resources GPU=1)
    WORKERS=1
fi
# A node that fails does not end the others.
srun --no-kill --kill-on-bad-exit=0 "$PYTHON" -m dask worker "$ADDRESS" \
    --nworkers "${WORKERS:-${SLURM_CPUS_PER_TASK:-1}}" --nthreads 1 --memory-limit 0 "${GPU[@]}" \
    --no-dashboard --death-timeout 60 --local-directory "${TMPDIR:-/tmp}" &
NODES=$!

# One minute before the time limit the job stops, and is queued again.
stop() {
    STOPPED=yes
    kill -INT "$JOB"
}
trap stop TERM
"$PYTHON" -c 'from cxrtext_cli.main import main; main()' job "$@" \
    --address "$ADDRESS" &
JOB=$!
wait "$JOB"
CODE=$?
[ -n "${STOPPED:-}" ] && wait "$JOB"
for PART in "$NODES" "$SCHEDULER"; do
    kill "$PART" 2> /dev/null
    wait "$PART" 2> /dev/null
done
rm -rf "$KEYS"
if [ -n "${STOPPED:-}" ]; then
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
fi
exit "$CODE"
