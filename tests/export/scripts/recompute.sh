#!/bin/sh
TP=2
layers() { echo $(( $1 * 12 )); }
pick() {
    local kind=$1
    if [ "$kind" = mlp ]; then echo "--recompute-granularity selective --recompute-modules core_attn mlp"; return; fi
    echo "--recompute-granularity selective"
}
ARGS="--num-layers $(layers 2) --hidden-size 4096 --num-attention-heads 32 --seq-length 4096"
ARGS="$ARGS --max-position-embeddings 4096 --swiglu --normalization RMSNorm --position-embedding-type rope"
ARGS="$ARGS --disable-bias-linear --untie-embeddings-and-output-weights --vocab-size 32000"
ARGS="$ARGS --hidden-dropout 0 --attention-dropout 0 --bf16 --use-distributed-optimizer"
# The later one holds.
ARGS="--tensor-model-parallel-size 8 $ARGS --tensor-model-parallel-size $TP"
python pretrain_gpt.py $ARGS $(pick ${MODULES:-mlp}) --micro-batch-size 2 --global-batch-size 32 --sequence-parallel
