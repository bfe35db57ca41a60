#!/bin/bash
# Train on one node or several: sbatch --nodes 2 train.sh cxrtext.yaml
# PROCESSES: how many a node, one for each of its GPUs. PYTHON: the environment's.
#SBATCH --job-name=cxrtext
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=cxrtext-%j.log

CONFIG=${1:?the configuration, a YAML file}
export HF_HUB_OFFLINE=1
# Without it, torchrun 2.13 lets a node that joins later wait in vain.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1

# Two minutes before the time limit every process saves its state, and the job is queued again.
# (A signal to srun itself would kill them.)
stop() {
    STOPPED=yes
    scancel --signal=TERM "$SLURM_JOB_ID.0"
}
trap stop TERM

HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# --resume starts afresh where the folder 'out' has no state yet, and the number of processes may
# have changed since.
srun --kill-on-bad-exit=1 "${PYTHON:-python}" -m torch.distributed.run \
    --nnodes "$SLURM_NNODES" --nproc-per-node "${PROCESSES:-8}" \
    --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}" \
    --rdzv-endpoint "${ENDPOINT:-$HEAD:29500}" \
    -m cxrtext.training "$CONFIG" --resume &
TRAINING=$!
wait "$TRAINING"
CODE=$?
if [ -n "${STOPPED:-}" ]; then
    wait "$TRAINING"
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
fi
exit "$CODE"
