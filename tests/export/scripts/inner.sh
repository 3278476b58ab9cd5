#!/bin/bash
# A script within a script: the outer shell puts in what it knows, inside quotes too.
source "$(dirname "$0")/moe.env"
srun --ntasks-per-node 8 bash -c "
    cd '$WORK/megatron' && \
    python -u pretrain_gpt.py ${MODEL_ARGS[*]} --bf16 --sequence-parallel --save '$RUN/it'\''s here' \
        --micro-batch-size $MICRO --global-batch-size 64"
