#!/bin/bash
# Megatron-DeepSpeed has most words of Megatron-LM and other rules.
ARGS="--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 \
    --micro-batch-size 4 --global-batch-size 128 --pad-vocab-size-to 51200 --fp16"
case ${KIND:-deepspeed} in
    deepspeed) deepspeed pretrain_gpt.py $ARGS --deepspeed --deepspeed_config ds.json --zero-stage 1 ;;
    old) torchrun pretrain_gpt.py $ARGS --checkpoint-activations ;;
    t5) torchrun $HOME/megatron/pretrain_t5.py $ARGS ;;
    plain) torchrun pretrain_gpt.py $ARGS ;;
esac
