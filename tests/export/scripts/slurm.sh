#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
source "$(dirname "$0")/moe.env"
export WORLD_SIZE=$((SLURM_NNODES * 8))
options=("${MODEL_ARGS[@]}")
case "${PRECISION:-bf16}" in
    fp8) options+=(--bf16 --fp8-format hybrid) ;;
    bf16) options+=(--bf16) ;;
    *) echo "unknown precision" >&2; exit 1 ;;
esac
[[ ${DRY_RUN:-0} -eq 1 ]] && { echo "${options[*]}"; exit 0; }
for name in ${EXTRA_SWITCHES-sequence-parallel use-distributed-optimizer}; do
    options+=("--$name")
done
srun --mpi=pmix -l bash -c "python -u pretrain_gpt.py ${options[*]} --expert-model-parallel-size 4 \
    --global-batch-size $((WORLD_SIZE * 16)) --micro-batch-size 1 > log.txt 2>&1"
