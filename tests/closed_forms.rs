//! The closed forms against the played program: memory to the byte, time never above.

mod sampling;

use meshwright::cluster::Cluster;
use meshwright::cost::DevicePricing;
use meshwright::cost::bound::Bound;
use meshwright::cost::instants::instants;
use meshwright::cost::known_chunks::KnownChunks;
use meshwright::cost::ledger::Ledger;
use meshwright::cost::unit_cost::UnitCosts;
use meshwright::model;
use meshwright::profile::engines::engines;
use meshwright::program::Layout;
use meshwright::program::build::build_on;
use meshwright::program::state::StateRules;
use meshwright::simulate::{Below, account, peak, play, play_below};
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;
use sampling::{Case, cases};

/// Closed forms of memory equal what the program of `case` holds, walked and played.
fn memory_agrees(cluster: &Cluster, case: &Case, what: &str) {
    let (strategy, engine) = (&case.strategy, case.engine);
    let layout = Layout::new(&case.model, strategy, &case.workload, engine);
    let pricing = DevicePricing::new(cluster, case.engine, strategy, case.workload.compute_type());
    let rules = StateRules::new(strategy, &case.workload, engine);
    let costs = UnitCosts::digested(layout.shaped(), &rules, engine, &pricing);
    let ledger = Ledger {
        layout: &layout,
        costs: &costs,
        strategy,
        engine,
        rules: &rules,
        known: &KnownChunks::default(),
    };
    let named =
        instants(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.virtual_stages);
    let program = build_on(&layout, strategy, &case.workload, engine);
    for rank in &program.ranks {
        let played = peak(rank);
        let (device, host) = account(rank);
        let context = format!(
            "{what}, rank {}, {} on {} devices, {}",
            rank.stage, case.text, case.devices, engine.name
        );
        let instants = &named[rank.stage as usize];
        assert_eq!(ledger.peak(rank.stage, instants), played.total, "{context}");
        assert_eq!(ledger.host(rank.stage, instants), played.host, "host, {context}");
        assert_eq!(device.at_peak, played.categories, "walked, {context}");
        assert_eq!(host.peak(), played.host, "walked host, {context}");
        let own = device.own_peak.iter().zip(device.at_peak);
        assert!(own.into_iter().all(|(own, at_peak)| *own >= at_peak), "{context}");
    }
}

#[test]
fn closed_form_memory_is_the_played_peak() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    for (seed, case) in cases(200_000, 4000) {
        memory_agrees(&cluster, &case, &format!("seed {seed}"));
    }
}

#[test]
fn closed_form_memory_of_many_like_blocks_is_the_played_peak() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    let config = r#"{"model_type":"llama","hidden_size":64,"intermediate_size":160,"num_hidden_layers":40,
        "num_attention_heads":4,"num_key_value_heads":2,"vocab_size":256,"max_position_embeddings":128,
        "hidden_act":"silu","rms_norm_eps":1e-5,"tie_word_embeddings":false}"#;
    let model = model::from_text(config, "config.json", "deep").expect("the configuration is legal");
    let workload =
        Workload { global_batch: 16, seq_len: 64, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let texts = [
        "zero=0",
        "zero=1,loss=chunked",
        "zero=2,ckpt=selective*25+full*9+none*6",
        "zero=3",
        "zero=3,reshard=off,micro=2",
        "zero=3,micro=1,ckpt=full*13+selective*13+none*14",
        "zero=3,offload=activations:1",
        "zero=3,offload=activations:0.6,overlap=off",
        "zero=3,offload=params:1+optimizer:0.5",
        "zero=3,offload=params:0.5+activations:0.5,ckpt=selective*11+none*29",
        "tp=2,zero=3,ckpt=selective",
        "pp=2,zero=2",
        "pp=2,sched=zb-h1,ckpt=full",
        "pp=2,sched=interleaved,virtual=2,zero=3",
        "pp=4,zero=0,offload=activations:1",
    ];
    let mut checked = 0;
    for (engine, text) in engines().iter().flat_map(|engine| texts.map(|text| (engine, text))) {
        let draft = Draft::parse(text).expect("the text is legal");
        let Ok(strategy) = resolve(&draft, &model, 4, &workload, engine) else { continue };
        let (model, text) = (model.clone(), text.to_owned());
        memory_agrees(&cluster, &Case { model, workload, engine, strategy, devices: 4, text }, "deep");
        checked += 1;
    }
    assert!(checked > 80, "{checked}");
}

#[test]
fn closed_form_memory_of_multi_token_prediction_is_the_played_peak() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    let config = serde_json::json!({
        "model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3,
        "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 128, "q_lora_rank": 24,
        "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 2,
    });
    let model = model::hugging_face::import_with(&config, "ahead", model::MultiToken::Counted);
    let model = model.expect("the configuration is legal");
    let workload =
        Workload { global_batch: 16, seq_len: 64, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let texts =
        ["zero=0", "zero=1,loss=chunked", "zero=3,ckpt=full", "tp=2,zero=1", "pp=2,zero=1", "pp=4,zero=0"];
    let mut checked = 0;
    for (engine, text) in engines().iter().flat_map(|engine| texts.map(|text| (engine, text))) {
        let draft = Draft::parse(text).expect("the text is legal");
        let Ok(strategy) = resolve(&draft, &model, 4, &workload, engine) else { continue };
        let (model, text) = (model.clone(), text.to_owned());
        memory_agrees(&cluster, &Case { model, workload, engine, strategy, devices: 4, text }, "ahead");
        checked += 1;
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn the_time_bound_is_never_above_the_played_time() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    let mut tightness = Vec::new();
    for (seed, case) in cases(300_000, 2000) {
        let (strategy, engine) = (&case.strategy, case.engine);
        let layout = Layout::new(&case.model, strategy, &case.workload, engine);
        let pricing = DevicePricing::new(&cluster, case.engine, strategy, case.workload.compute_type());
        let rules = StateRules::new(strategy, &case.workload, engine);
        let costs = UnitCosts::digested(layout.shaped(), &rules, engine, &pricing);
        let workload = &case.workload;
        let bound = Bound {
            layout: &layout,
            copied: &layout,
            costs: &costs,
            strategy,
            workload,
            engine,
            rules: &rules,
            pricing: &pricing,
            known: &KnownChunks::default(),
        };
        let bound = bound.step_time().0;
        let played = play(&build_on(&layout, strategy, workload, engine), &pricing).step_time.0;
        assert!(
            bound <= played * (1.0 + 1e-9),
            "seed {seed}, {}, {}: {bound} > {played}",
            case.text,
            engine.name
        );
        tightness.push(bound / played);
    }
    tightness.sort_by(f64::total_cmp);
    // A bound that is only ever far below would prove nothing.
    assert!(tightness[tightness.len() / 2] > 0.8, "median {}", tightness[tightness.len() / 2]);
}

#[test]
fn playing_stops_only_where_a_step_takes_too_long() {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    let (mut stopped, mut early) = (0, 0);
    for (seed, case) in cases(500_000, 500) {
        let (strategy, workload) = (&case.strategy, &case.workload);
        let layout = Layout::new(&case.model, strategy, workload, case.engine);
        let pricing = DevicePricing::new(&cluster, case.engine, strategy, workload.compute_type());
        let program = build_on(&layout, strategy, workload, case.engine);
        let whole = play(&program, &pricing);
        let below = |share: f64| play_below(&program, &pricing, whole.step_time * share);
        assert_eq!(below(1.0 + 1e-6), Below::Played(whole.clone()), "seed {seed}, {}", case.text);
        match below(0.95) {
            Below::Played(playback) => assert_eq!(playback, whole, "seed {seed}, {}", case.text),
            Below::Slower(slower) => {
                let share = slower.at_least.0 / whole.step_time.0;
                assert!((0.95..=1.0 + 1e-9).contains(&share), "seed {seed}, {}: {share}", case.text);
                stopped += 1;
                early += u32::from((slower.about.0 / whole.step_time.0 - 1.0).abs() < 0.2);
            }
        }
    }
    // What never stopped would save nothing, and what it would take about is what plans are chosen by.
    assert!(stopped > 400, "{stopped}");
    assert!(early > stopped * 3 / 4, "{early} of {stopped}");
}
