#!/bin/bash
# A command made of texts and run by eval, on a machine that sets up its own: quotes in the texts are the shell's.
source $SITE/setup-cuda12
MOE="--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 512 --moe-layer-freq '([0]*1+[1]*3)' --moe-grouped-gemm"
MODEL="--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --ffn-hidden-size 4096 --swiglu \
    --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
    --seq-length 2048 --max-position-embeddings 2048 --hidden-dropout 0 --attention-dropout 0"
run="torchrun --nproc_per_node 8 pretrain_gpt.py $MODEL $MOE --expert-model-parallel-size 2 --bf16 \
    --vocab-file $DATA/gpt2-vocab.json --merge-file $DATA/gpt2-merges.txt --rampup-batch-size 8 8 10000 \
    --micro-batch-size 1 --global-batch-size 64 --save $OUT/first --log-interval 1"
echo $run
eval $run
