//! A plan made up by hand, with the sums that real ones keep, for the tests of reports.

mod map;

use serde_json::json;

pub use map::mapped_plan;

use crate::plan::document::{
    ClusterRecord, CostModelRecord, EvidenceRecord, ModelRecord, NearRun, ParetoPoint, SafeMemory,
    TimelinePass,
};
use crate::plan::{
    Alternative, CategoryBytes, CauseSeconds, GradientRecord, GradientSumRecord, Interval, LadderStep,
    MemoryMoment, MemoryOverTime, Plan, Prediction, RankPrediction, SearchAccount, StrategyRecord,
    TimelineSpan,
};
use crate::program::GradientBuffer;
use crate::search::Objective;
use crate::strategy::Workload;
use crate::units::{Bytes, ElementType, Seconds};

const TEXT: &str = "tp=8,pp=4,dp=2,zero=1,micro=1,accum=256,ckpt=selective";

/// Llama 3.1 70B on 64 H100 over 4 stages.
pub fn sample_plan() -> Plan {
    let ranks: Vec<_> = (0..4).map(|stage| rank(stage, 4)).collect();
    Plan {
        version: crate::plan::VERSION,
        engine: "embedded".to_owned(),
        cost_model: CostModelRecord {
            name: "h100-sxm".to_owned(),
            hash: "9f2c51ab77e04d1c8be3".repeat(3),
            origin: "14 datasheet, 3 measured, 9 estimate".to_owned(),
        },
        model: ModelRecord {
            name: "llama-3.1-70b".to_owned(),
            parameters: 70_553_706_496,
            layers: 80,
            graph: json!({}),
        },
        cluster: ClusterRecord {
            name: "8x8xh100-sxm".to_owned(),
            devices: 64,
            nodes: 8,
            device: "h100-sxm".to_owned(),
            device_memory_bytes: Bytes::gib(80),
            document: json!({}),
        },
        workload: Workload {
            global_batch: 512,
            seq_len: 8192,
            precision: ElementType::Bf16,
            dropout: 0.0,
            clip: 1.0,
        },
        strategy: strategy(
            TEXT,
            "tensor parallel 8 inside a node, pipeline 4 (1F1B), ZeRO-1 over 2 ranks, 256 micro-batches of 1, \
             selective recompute",
        ),
        prediction: prediction(ranks),
        evidence: EvidenceRecord {
            runs: 61,
            nearest: vec![NearRun {
                id: "dgxc-llama3-70b-h100-64".to_owned(),
                engine: "nemo".to_owned(),
                shared: vec!["tensor parallelism".to_owned(), "sharded optimizer state".to_owned()],
                time_error: Some(-0.034),
                memory_error: None,
                mfu: Some(0.44),
            }],
            mape: Some(0.07),
            unvalidated: vec!["activation offload".to_owned()],
        },
        fastest: None,
        engines: Vec::new(),
        search: Some(SearchAccount {
            considered: 12_480,
            illegal: 7_902,
            out_of_memory: 2_641,
            bounded: 1_603,
            priced: 334,
            played: 24,
            objective: Objective::Time,
            proven_optimal: false,
            gap: 0.013,
            robust_gap: Some(0.004),
            inner_choices_log10: 23.4,
            wall_time_s: 0.42,
            axes: [
                ("tp".to_owned(), ["1", "2", "4", "8"].map(str::to_owned).to_vec()),
                ("sched".to_owned(), ["1f1b", "interleaved", "zb-h1"].map(str::to_owned).to_vec()),
            ]
            .into(),
            held: [("bucket".to_owned(), "25M".to_owned())].into(),
        }),
        alternatives: [
            ("tp=8,pp=2,dp=4,zero=1,micro=1,accum=128,ckpt=selective", 1.021, 71.0, "2.1 % slower; 9 GiB more \
             memory, half the stages"),
            ("tp=8,pp=4,dp=2,sched=interleaved,zero=1,micro=1,accum=256,ckpt=selective", 1.034, 66.4, "less \
             bubble, more exposed sends between stages"),
            ("tp=4,dp=16,zero=3,micro=1,accum=32,ckpt=full", 1.096, 48.2, "9.6 % slower; 14 GiB less memory, no \
             pipeline to balance"),
        ]
        .into_iter()
        .map(|(text, slower, peak, trades)| Alternative {
            strategy: strategy(text, "another plan"),
            prediction: scaled(slower, peak),
            trades: trades.to_owned(),
        })
        .collect(),
        ladder: [
            ("plain data parallel", 0.92, 1092.0),
            ("ZeRO 3 over all 64 ranks", 1.31, 104.6),
            ("full recompute", 1.62, 41.7),
            ("tensor parallel 8 inside a node", 1.28, 38.9),
            ("pipeline of 4 stages, ZeRO 1 instead of 3", 1.14, 36.0),
            ("selective recompute instead of full", 1.0, 60.4),
        ]
        .into_iter()
        .map(|(changed, slower, peak)| LadderStep {
            strategy: strategy("dp=64,zero=0,micro=1,accum=8", "a step"),
            prediction: scaled(slower, peak),
            changed: changed.to_owned(),
        })
        .collect(),
        pareto: [
            (TEXT, 1.0, 60.4),
            ("tp=8,pp=4,dp=2,sched=zb-h1,zero=1,micro=1,accum=256,ckpt=selective", 1.008, 58.9),
            ("tp=4,dp=16,zero=3,micro=1,accum=32,ckpt=full", 1.096, 48.2),
            ("tp=8,pp=4,dp=2,zero=1,micro=1,accum=256,ckpt=full", 1.14, 36.0),
            ("tp=8,pp=8,dp=1,zero=0,micro=1,accum=512,ckpt=full", 1.31, 29.3),
            ("tp=8,pp=8,dp=1,zero=0,micro=1,accum=512,ckpt=full,offload=optimizer:1", 1.9, 17.8),
        ]
        .into_iter()
        .map(|(text, slower, peak)| ParetoPoint {
            strategy: text.to_owned(),
            step_time_s: Seconds(66.1 * slower),
            peak_memory_bytes: Bytes::gib(1).scaled(peak),
            process_bytes: Some(Bytes::gib(1).scaled(1.09 * peak) + Bytes::gib(2)),
            devices: None,
            cost_token: None,
        })
        .collect(),
        swept: None,
        sweep: Vec::new(),
        break_evens: Vec::new(),
        sensitivity: Vec::new(),
        maximum: None,
        cost: None,
        goodput: None,
        verdict: "Compute binds: 74 % of the step is useful matrix work, and the largest loss beside it is exposed \
                  tensor-parallel communication."
            .to_owned(),
        timeline: one_forward_one_backward(4, 256),
        memory_over_time: Some(held(&rank(0, 4))),
        gradients: (0..4).map(gradients).collect(),
        warnings: vec!["config.json: field `pretraining_tp` is not known and was not used".to_owned()],
        digest: "5e1d0c7a".repeat(8),
    }
}

/// What `rank` holds: activations grow to their most at its peak, and shrink again towards the end.
pub fn held(rank: &RankPrediction) -> MemoryOverTime {
    let moment = |at_s: Seconds, share: f64| {
        let activations = rank.memory_bytes.activations.scaled(share);
        MemoryMoment { at_s, memory_bytes: CategoryBytes { activations, ..rank.memory_bytes } }
    };
    let (peak, end) = (rank.peak_at_s, rank.step_time_s);
    let moments = [0.0, 0.5].map(|share| moment(peak * share, share)).into_iter().chain([
        moment(peak, 1.0),
        moment(end - peak, 0.5),
        moment(end, 0.0),
    ]);
    MemoryOverTime { stage: rank.stage, moments: moments.collect() }
}

/// The gradients of the blocks of `stage`, summed behind the last of 256 micro-batches.
fn gradients(stage: u32) -> GradientRecord {
    let last = "backward of micro-batch 255, chunk 0".to_owned();
    GradientRecord {
        stage,
        layers: format!("block {} to block {}", 20 * stage, 20 * stage + 19),
        units: Some([1 + 20 * stage, 20 + 20 * stage]),
        buffer: GradientBuffer::Whole,
        element_type: ElementType::Bf16,
        bytes: Bytes::mib(204),
        shards: 2,
        expert_shards: None,
        from: "backward of micro-batch 0, chunk 0".to_owned(),
        until: "optimizer step".to_owned(),
        times: 1,
        sums: vec![GradientSumRecord {
            collective: "reduce-scatter".to_owned(),
            over: "the shard group".to_owned(),
            bytes: Bytes::mib(204),
            from: last.clone(),
            until: last,
            times: 1,
        }],
    }
}

/// A strategy of this text; only what reports show is set with care.
pub fn strategy(text: &str, description: &str) -> StrategyRecord {
    StrategyRecord {
        text: text.to_owned(),
        description: description.to_owned(),
        tensor_parallel: 8,
        sequence_parallel: true,
        context_parallel: 1,
        expert_parallel: 1,
        pipeline_parallel: 4,
        virtual_stages: 1,
        stage_layers: vec![20; 4],
        schedule: "1f1b".to_owned(),
        data_parallel: 2,
        zero_stage: 1,
        shard_group: 2,
        reshard_after_forward: true,
        micro_batch: 1,
        accumulation: 256,
        gradient_sync: "deferred".to_owned(),
        checkpointing: "selective".to_owned(),
        offload: "none".to_owned(),
        compression: "none".to_owned(),
        mesh_order: "tp-cp-dp-pp".to_owned(),
        numerics: vec![],
    }
}

/// Stage `stage` of `stages`: the first holds most micro-batches, the last the head.
pub fn rank(stage: u32, stages: u32) -> RankPrediction {
    let gib = |amount: f64| Bytes::gib(1).scaled(amount);
    let is_last = stage + 1 == stages;
    let memory = CategoryBytes {
        parameters: gib(4.14),
        gradients: gib(8.28),
        optimizer: gib(12.42),
        activations: gib(7.9 * f64::from((stages - stage).min(8))),
        logits: gib(if is_last { 1.96 } else { 0.0 }),
        buffers: gib(1.12),
        overhead: gib(2.84),
    };
    let time = CauseSeconds {
        compute: Seconds(if is_last { 49.1 } else { 48.3 }),
        recompute: Seconds(3.2),
        communication_exposed: Seconds(10.4),
        copy_exposed: Seconds(0.0),
        bubble: Seconds(if is_last { 2.9 } else { 3.7 }),
        optimizer: Seconds(0.5),
    };
    RankPrediction {
        stage,
        step_time_s: time.parts().into_iter().map(|(_, seconds)| seconds).sum(),
        peak_memory_bytes: memory.parts().into_iter().map(|(_, bytes)| bytes).sum(),
        extent_bytes: memory.parts().into_iter().map(|(_, bytes)| bytes).sum(),
        memory_bytes: memory,
        peak_at_s: Seconds(1.9),
        peak_instant: format!("forward of micro-batch {}, chunk 0", stages - 1 - stage),
        host_memory_bytes: Bytes::gib(2),
        host_extent_bytes: Bytes::gib(2),
        time_s: time,
        communication_hidden_s: Seconds(6.8),
    }
}

/// The whole prediction that these ranks make.
pub fn prediction(ranks: Vec<RankPrediction>) -> Prediction {
    let worst = ranks.iter().max_by_key(|rank| rank.peak_memory_bytes).unwrap().clone();
    let busiest = ranks[super::words::busiest(&ranks).unwrap()].clone();
    let (step, peak) = (busiest.step_time_s, worst.peak_memory_bytes);
    Prediction {
        step_time_s: step,
        tokens_per_s_per_device: 512.0 * 8192.0 / 64.0 / step.0,
        mfu: 0.4463,
        interval: Interval {
            step_time_s: [step * 0.94, step * 1.06],
            peak_memory_bytes: [peak.scaled(0.97), peak.scaled(1.04)],
        },
        fits: true,
        peak_memory_bytes: peak,
        extent_bytes: worst.extent_bytes,
        memory_bytes: worst.memory_bytes,
        safe_memory_bytes: SafeMemory {
            allocated: peak.scaled(1.04),
            reserved: peak.scaled(1.09),
            process: peak.scaled(1.09) + Bytes::gib(2),
        },
        host_memory_bytes: worst.host_memory_bytes,
        host_extent_bytes: worst.host_extent_bytes,
        time_s: busiest.time_s,
        communication_hidden_s: busiest.communication_hidden_s,
        ranks,
    }
}

/// The sample's prediction, `slower` times as long and with this peak in GiB.
fn scaled(slower: f64, peak: f64) -> Prediction {
    let mut prediction = prediction(vec![rank(0, 4)]);
    prediction.step_time_s = Seconds(66.1 * slower);
    prediction.tokens_per_s_per_device /= slower;
    prediction.mfu /= slower;
    prediction.peak_memory_bytes = Bytes::gib(1).scaled(peak);
    prediction.safe_memory_bytes.process = prediction.peak_memory_bytes.scaled(1.09) + Bytes::gib(2);
    prediction.fits = prediction.safe_memory_bytes.process <= Bytes::gib(80);
    prediction
}

/// The passes of 1F1B with forwards of 84.4 ms, backwards of 168.8 ms and an optimizer step of 500 ms.
pub fn one_forward_one_backward(stages: u32, micros: u32) -> Vec<TimelineSpan> {
    use TimelinePass::{Backward, Forward, Step};
    let orders: Vec<Vec<_>> = (0..stages)
        .map(|stage| {
            let ahead = (stages - 1 - stage).min(micros);
            let steady = (ahead..micros).flat_map(|micro| [(Forward, micro), (Backward, micro - ahead)]);
            let rest = (micros - ahead..micros).map(|micro| (Backward, micro));
            (0..ahead).map(|micro| (Forward, micro)).chain(steady).chain(rest).collect()
        })
        .collect();
    let mut ends = std::collections::HashMap::new();
    let mut free = vec![0.0f64; stages as usize];
    let mut next = vec![0; stages as usize];
    let mut spans = Vec::new();
    while spans.len() < 2 * (stages * micros) as usize {
        for stage in 0..stages {
            let place = stage as usize;
            let Some(&(pass, micro)) = orders[place].get(next[place]) else { continue };
            let before = match pass {
                Forward if stage > 0 => Some((Forward, stage - 1, micro)),
                Backward if stage + 1 < stages => Some((Backward, stage + 1, micro)),
                _ => None,
            };
            let ready = match before {
                None => 0.0,
                Some(key) => match ends.get(&key) {
                    None => continue,
                    Some(&end) => end,
                },
            };
            let start = free[place].max(ready);
            let end = start + if pass == Forward { 0.0844 } else { 0.1688 };
            ends.insert((pass, stage, micro), end);
            free[place] = end;
            next[place] += 1;
            spans.push(TimelineSpan {
                stage,
                pass,
                chunk: 0,
                micro,
                start_s: Seconds(start),
                end_s: Seconds(end),
            });
        }
    }
    let end = free.iter().copied().fold(0.0, f64::max);
    spans.extend((0..stages).map(|stage| TimelineSpan {
        stage,
        pass: Step,
        chunk: 0,
        micro: 0,
        start_s: Seconds(end),
        end_s: Seconds(end + 0.5),
    }));
    spans
}
