#!/bin/bash
set -e
ENV=$1
MODEL_SIZE=${2:-7B}
BATCH_SIZE=${3:-1}
GLOBAL_BATCH_SIZE=${4:-64}
TP=$5
AC=${6:-none}
DO=${7:-true}

if [ $MODEL_SIZE = 7B ]; then
  NUM_LAYERS=32; HIDDEN_SIZE=4096; NUM_ATTN_HEADS=32; INTERMEDIATE_SIZE=11008
  gqa_options=""
elif [ $MODEL_SIZE = 70B ]; then
  NUM_LAYERS=80; HIDDEN_SIZE=8192; NUM_ATTN_HEADS=64; INTERMEDIATE_SIZE=28672
  gqa_options=" --group-query-attention --num-query-groups 8"
fi
if [ $AC = full ]; then
  activation_checkpoint_options=" \
    --recompute-method uniform \
    --recompute-num-layers 1 \
    --recompute-granularity full"
elif [ $AC = sel ]; then
  activation_checkpoint_options=" --recompute-activations"
elif [ $AC = none ]; then
  activation_checkpoint_options=" "
fi
if [ $DO = true ]; then
  do_options=" --use-distributed-optimizer"
fi
megatron_options="  \
  --num-layers ${NUM_LAYERS} --hidden-size ${HIDDEN_SIZE} --num-attention-heads ${NUM_ATTN_HEADS} \
  --ffn-hidden-size ${INTERMEDIATE_SIZE} --seq-length 4096 --max-position-embeddings 4096 \
  --micro-batch-size ${BATCH_SIZE} --global-batch-size ${GLOBAL_BATCH_SIZE} \
  --swiglu --normalization RMSNorm --use-rotary-position-embeddings --position-embedding-type rope \
  --untie-embeddings-and-output-weights --disable-bias-linear --tokenizer-type Llama2Tokenizer \
  --attention-dropout 0.0 --hidden-dropout 0.0 --tensor-model-parallel-size ${TP} --bf16"

run_cmd="torchrun --nproc_per_node 8 pretrain_llama.py
 ${megatron_options} ${gqa_options} ${activation_checkpoint_options} ${do_options}"

echo ${run_cmd}
eval ${run_cmd}
set +x
