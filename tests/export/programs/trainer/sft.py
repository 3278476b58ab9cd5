import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_id = "Qwen/Qwen2.5-7B"
model = AutoModelForCausalLM.from_pretrained(model_id, torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2")
tokenizer = AutoTokenizer.from_pretrained(model_id)

args = SFTConfig(
    output_dir="out",
    max_seq_length=2048,
    packing=True,
    per_device_train_batch_size=2,
    gradient_accumulation_steps=4,
    gradient_checkpointing=True,
    optim="adamw_torch_fused",
    bf16=True,
    max_grad_norm=0.3,
    fsdp="hybrid_shard auto_wrap",
    learning_rate=2e-5,
)
trainer = SFTTrainer(model=model, args=args, train_dataset=None)
