#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@300

export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=240
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node "$SLURM_GPUS_ON_NODE" \
    --rdzv-backend c10d --rdzv-endpoint "$first:29500" --rdzv-id "$SLURM_JOB_ID" \
    train.py -- "$@"
