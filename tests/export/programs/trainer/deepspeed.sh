#!/bin/bash
MODEL=meta-llama/Llama-2-7b-hf
torchrun --nproc_per_node=8 --master_port=20001 train.py \
    --model_name_or_path $MODEL \
    --data_path ./alpaca_data.json \
    --bf16 True \
    --output_dir ./out \
    --num_train_epochs 3 \
    --per_device_train_batch_size 4 \
    --per_device_eval_batch_size 4 \
    --gradient_accumulation_steps 8 \
    --evaluation_strategy "no" \
    --save_strategy "steps" \
    --save_steps 2000 \
    --learning_rate 2e-5 \
    --weight_decay 0. \
    --warmup_ratio 0.03 \
    --lr_scheduler_type "cosine" \
    --model_max_length 2048 \
    --gradient_checkpointing True \
    --deepspeed ds3.json \
    --tf32 True
