torchrun -m torchtitan.train --module llama3 --config llama3_8b --parallelism.tensor_parallel_degree 2 \
    --training.max_context_length 8192
