torchrun --nproc_per_node=8 train.py --job.config_file titan_2024.toml --training.data_parallel_shard_degree 1
