#!/bin/bash
# eval within eval: what one leaves open is not what the other does.
say() { eval "echo $HOST_NAME $PORT"; }
eval "say $NAME; torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 8 \
    --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50304 --bf16 --micro-batch-size $MICRO \
    --global-batch-size 64"
