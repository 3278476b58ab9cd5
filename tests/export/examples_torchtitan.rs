//! torchtitan's own example configurations, by the settings that shape their runs, and the strategies that they mean.

use crate::example::{Example, meaning, refused};

const SEEN: &str = "torchtitan";

fn toml(text: &str) -> Example<'_> {
    Example { engine: SEEN, text, model: None, cluster: "8x8xh100-sxm", batch: None }
}

#[test]
fn the_8b_file() {
    let text = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[optimizer]\nname = \"AdamW\"\nlr = 3e-4\n[training]\n\
                local_batch_size = 1\nseq_len = 8192\nmax_norm = 1.0\nsteps = 1000\ndataset = \"c4\"\n[parallelism]\n\
                data_parallel_replicate_degree = 1\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 1\n\
                pipeline_parallel_degree = 1\ncontext_parallel_degree = 1\n[activation_checkpoint]\nmode = \"selective\"\n\
                selective_ac_option = \"op\"\n";
    let read = meaning(&toml(text));
    assert_eq!(read.strategy, "tp=1,pp=1,dp=64,zero=3,micro=1,accum=1,ckpt=selective");
    assert_eq!((read.model.as_str(), read.batch, read.seq_len), ("llama-3.1-8b", 64, 8192));
    assert!(read.left.is_empty(), "{:?}", read.left);
}

#[test]
fn the_70b_file() {
    let text = "[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n\
                [parallelism]\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 8\n\
                [activation_checkpoint]\nmode = \"full\"\n";
    let read = meaning(&toml(text));
    assert_eq!(read.strategy, "tp=8,pp=1,dp=8,zero=3,micro=8,accum=1,ckpt=full");
    assert_eq!((read.model.as_str(), read.batch), ("llama-3.1-70b", 64));
}

#[test]
fn the_405b_file() {
    let text = "[model]\nname = \"llama3\"\nflavor = \"405B\"\nconverters = [\"float8\"]\n[training]\nlocal_batch_size = 2\n\
                seq_len = 8192\n[parallelism]\ntensor_parallel_degree = 8\nenable_async_tensor_parallel = true\n\
                [activation_checkpoint]\nmode = \"full\"\n[compile]\nenable = true\ncomponents = [\"model\", \"loss\"]\n\
                [quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n\
                precompute_float8_dynamic_scale_for_fsdp = true\nfilter_fqns = [\"output\"]\n";
    let read = meaning(&Example { cluster: "16x8xh100-sxm", ..toml(text) });
    assert_eq!(read.strategy, "tp=8,pp=1,dp=16,zero=3,micro=2,accum=1,ckpt=full");
    assert_eq!((read.precision.as_str(), read.batch), ("fp8", 32));
    assert!(read.notes.iter().any(|note| note.contains("8 bits")), "{:?}", read.notes);
}

#[test]
fn an_interleaved_pipeline_that_recomputes_every_second_block() {
    let text = "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n[training]\nlocal_batch_size = 8\nseq_len = 2048\n\
                [parallelism]\ndata_parallel_shard_degree = 2\ntensor_parallel_degree = 2\npipeline_parallel_degree = 2\n\
                pipeline_parallel_schedule = \"Interleaved1F1B\"\n[activation_checkpoint]\nmode = \"selective\"\n\
                selective_ac_option = \"2\"\n";
    let read = meaning(&Example { cluster: "1x8xh100-sxm", ..toml(text) });
    assert_eq!(
        read.strategy,
        "tp=2,pp=2,dp=2,sched=interleaved,zero=3,reshard=off,micro=1,accum=8,sync=deferred,\
         ckpt=none/none*1+full*1/full:1/none"
    );
    assert_eq!(read.batch, 16);
}

#[test]
fn the_405b_run_with_a_pipeline() {
    let text = "[model]\nname = \"llama3\"\nflavor = \"405B\"\n[training]\nlocal_batch_size = 32\nseq_len = 8192\n\
                [parallelism]\ndata_parallel_shard_degree = 8\ntensor_parallel_degree = 8\npipeline_parallel_degree = 8\n\
                pipeline_parallel_schedule = \"Interleaved1F1B\"\n[activation_checkpoint]\nmode = \"full\"\n";
    let read = meaning(&Example { cluster: "64x8xh100-sxm", ..toml(text) });
    assert_eq!(
        read.strategy,
        "tp=8,pp=8,dp=8,sched=interleaved,zero=3,reshard=off,micro=1,accum=32,sync=deferred,ckpt=full"
    );
}

#[test]
fn a_model_that_is_not_known_is_named() {
    let text = "[model]\nname = \"llama4\"\nflavor = \"17bx16e\"\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n\
                [parallelism]\ntensor_parallel_degree = 8\nexpert_parallel_degree = 1\nexpert_tensor_parallel_degree = 8\n\
                [activation_checkpoint]\nmode = \"full\"\n";
    assert!(refused(&toml(text)).contains("llama4 17bx16e"));
    // With a mixture in its place: expert tensor parallelism has no effect where experts are not spread.
    let read = meaning(&Example { model: Some("mixtral-8x7b"), ..toml(text) });
    assert_eq!(read.strategy, "tp=8,pp=1,dp=8,zero=3,micro=8,accum=1,ckpt=full");
}

#[test]
fn what_is_wrong_is_named() {
    let head =
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 8192\nlocal_batch_size = 1\n";
    for (rest, wanted) in [
        ("[parallelism]\ntensor_paralel_degree = 8\n", "`parallelism.tensor_paralel_degree` is no setting"),
        ("[parallelism]\ntensor_parallel_degree = 0\n", "at least 1"),
        ("[parallelism]\ntensor_parallel_degree = \"8\"\n", "a whole number"),
        ("[parallelism]\ntensor_parallel_degree = 7\n", "no whole number"),
        ("[parallelism]\nfsdp_reshard_after_forward = \"alway\"\n", "always"),
        ("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"DualPipeV\"\n", "1F1B"),
        ("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_layers_per_stage = 5\n", "chunks"),
        (
            "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"ZBVZeroBubble\"\n\
             pipeline_parallel_layers_per_stage = 6\n",
            "two each",
        ),
        ("[activation_checkpoint]\nmode = \"memory_budget\"\n", "not modelled"),
        ("[optimizer]\nearly_step_in_backward = true\n", "not modelled"),
    ] {
        let text = format!("{head}{rest}");
        let error = refused(&toml(&text));
        assert!(error.contains(wanted), "{rest}: {error}");
    }
}

/// A function of the main branch's registry, whose recipes say their tokens and not the length of a sequence.
fn registry(text: &str) -> Example<'_> {
    Example { engine: "torchtitan@main", text, model: None, cluster: "8x8xh100-sxm", batch: None }
}

#[test]
fn the_405b_function_of_the_registry() {
    let text = "def llama3_405b() -> Trainer.Config:\n    compile_config = CompileConfig(enable=True, enable_async_tensor_parallel=True)\n    \
                model_spec = model_registry(\n        \"405B\",\n        converters=[Float8LinearConverter.Config(filter_fqns=[\"lm_head\"])],\n    )\n    \
                return Trainer.Config(\n        \
                loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec))),\n        \
                model_spec=model_spec,\n        optimizer=default_adamw(lr=8e-5),\n        training=TrainingConfig(\n            \
                num_tokens_per_microbatch_per_dp_rank=2 * 8192,\n            max_context_length=8192,\n            \
                steps=3000,\n        ),\n        parallelism=ParallelismConfig(tensor_parallel_degree=8),\n        \
                activation_checkpoint=FullAC.Config(),\n        compile=compile_config,\n    )\n";
    let read = meaning(&registry(text));
    assert_eq!(read.strategy, "tp=8,pp=1,dp=8,zero=3,micro=2,accum=1,ckpt=full,loss=chunked");
    assert_eq!((read.model.as_str(), read.batch, read.seq_len), ("llama-3.1-405b", 16, 8192));
    assert_eq!(read.precision, "fp8");
    assert!(read.left.is_empty(), "{:?}", read.left);
    let other = text.replace("Float8LinearConverter", "MXFP8LinearConverter");
    assert!(refused(&registry(&other)).contains("only float8 products are modelled"));
}

#[test]
fn the_16b_function_of_the_registry_names_a_schedule_that_nothing_runs() {
    let text = "def deepseek_v3_16b() -> Trainer.Config:\n    model_spec = model_registry(\"16B\", attn_backend=\"flex\")\n    \
                return Trainer.Config(\n        \
                loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec))),\n        \
                model_spec=model_spec,\n        training=TrainingConfig(\n            \
                num_tokens_per_microbatch_per_dp_rank=4 * 4096,\n            max_context_length=4096,\n            steps=1000,\n            \
                disable_cuda_graphs=True,\n        ),\n        parallelism=ParallelismConfig(\n            \
                pipeline_parallel_schedule=\"Interleaved1F1B\",\n            expert_parallel_degree=8,\n        ),\n        \
                activation_checkpoint=SelectiveAC.Config(),\n        compile=CompileConfig(enable=True, components=[\"loss\"]),\n    )\n";
    let read = meaning(&registry(text));
    assert_eq!(read.strategy, "tp=1,pp=1,dp=64,ep=8,zero=3,micro=4,accum=1,ckpt=selective,loss=chunked");
    assert_eq!((read.batch, read.seq_len), (256, 4096));
    assert!(read.left.is_empty(), "{:?}", read.left);
}

/// A recipe of the release with Python configurations.
fn recipe(text: &str) -> Example<'_> {
    Example { engine: "torchtitan@v0.3.0", ..registry(text) }
}

#[test]
fn what_a_recipe_leaves_out_is_what_its_function_sets() {
    let on = |function: &str, rest: &str| format!("def mine():\n    c = {function}()\n{rest}    return c\n");
    // 70B: tensor parallelism of 8, full recomputation, eight sequences of 8,192 tokens.
    let text = on("llama3_70b", "    c.parallelism.data_parallel_replicate_degree = 2\n");
    for example in [recipe(&text), registry(&text)] {
        let read = meaning(&example);
        assert_eq!(read.strategy, "tp=8,pp=1,dp=8,zero=3,shard=4,micro=8,accum=1,ckpt=full,loss=chunked");
        assert_eq!((read.model.as_str(), read.batch, read.seq_len), ("llama-3.1-70b", 64, 8192));
        assert!(read.notes.is_empty() && read.left.is_empty(), "{read:?}");
    }
    // What it says itself goes first, None too; a whole part replaces the function's.
    let text = on(
        "llama3_70b",
        "    c.activation_checkpoint = None\n    c.training.local_batch_size = 2\n    c.parallelism = ParallelismConfig()\n",
    );
    let read = meaning(&recipe(&text));
    assert_eq!(read.strategy, "tp=1,pp=1,dp=64,zero=3,micro=2,accum=1,loss=chunked");
    // 405B: in 8 bits and compiled, unless the model is made anew.
    let text = on("llama3_405b", "");
    assert_eq!(meaning(&recipe(&text)).precision, "fp8");
    let text = on("llama3_405b", "    c.model_spec = model_registry(\"405B\")\n");
    assert_eq!(meaning(&recipe(&text)).precision, "bf16");
    // Another function: what is said is read, and what it may set is not made up.
    let said = "    c.model_spec = model_registry(\"8B\")\n    c.training.seq_len = 4096\n    c.training.local_batch_size = 1\n";
    let read = meaning(&recipe(&on("ours", said)));
    assert_eq!((read.batch, read.seq_len), (64, 4096));
    assert!(
        read.notes.iter().any(|note| note.contains("What ours sets is not known here")),
        "{:?}",
        read.notes
    );
    let error = refused(&recipe(&on("ours", "    c.model_spec = model_registry(\"8B\")\n")));
    assert!(
        error.contains("local_batch_size") && error.contains("what ours sets is not known here"),
        "{error}"
    );
}

#[test]
fn what_no_function_sets_is_the_default_of_the_class() {
    let text = "def mine():\n    model_spec = model_registry(\"8B\")\n    return Trainer.Config(\n        model_spec=model_spec,\n        \
                training=TrainingConfig(steps=10),\n        parallelism=ParallelismConfig(tensor_parallel_degree=2),\n    )\n";
    // The main branch: 16,384 tokens a micro-batch in sequences of 2,048. The release: eight sequences of 2,048.
    for example in [registry(text), recipe(text)] {
        let read = meaning(&example);
        assert_eq!((read.batch, read.seq_len), (256, 2048), "{}", example.engine);
        assert!(read.strategy.contains("micro=8,accum=1"), "{}", read.strategy);
    }
}

#[test]
fn what_the_trainer_refuses_is_refused() {
    let text = "def mine():\n    c = llama3_8b()\n    c.parallelism.pipeline_parallel_degree = 4\n    \
                c.training.local_batch_size = 4\n    return c\n";
    let error = refused(&recipe(text));
    assert!(error.contains("a pipeline does not go with CUDA graphs"), "{error}");
    let with = |rest: &str| {
        text.replace("    return", &format!("    c.training.disable_cuda_graphs = True\n{rest}    return"))
    };
    let read = meaning(&recipe(&with("")));
    assert!(
        read.strategy.starts_with("tp=1,pp=4,dp=16,cuts=8/9/8/7,zero=3,reshard=off"),
        "{}",
        read.strategy
    );
    // The head has another name than in v0.2.2, where a module without one would be built.
    let parts = "    c.parallelism.module_fqns_per_model_part = [[\"tok_embeddings\"], [\"layers.0\"], [\"layers.1\"], [\"norm\", \"output\"]]\n";
    let error = refused(&recipe(&with(parts)));
    assert!(error.contains("no chunk would hold lm_head"), "{error}");
}
