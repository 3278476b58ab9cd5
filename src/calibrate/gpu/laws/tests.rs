//! Laws that made times are found again in them.

use super::*;
use crate::cost::gemm;
use crate::ops::{Elementwise, ElementwiseKind, RowNorm};
use crate::profile::device_model;
use crate::units::Bytes;

const START: f64 = 4e-6;

fn near(found: f64, made: f64, within: f64) {
    assert!((found / made - 1.0).abs() < within, "{found:e} is not {made:e}");
}

fn timed(op: Op, work: f64) -> Timed {
    Timed { op, seconds: START + work, count: 7 }
}

fn activation(elements: u64) -> Op {
    let kind = ElementwiseKind::Activation;
    Op::Elementwise(Elementwise { kind, elements, operands: 2, element: ElementType::Bf16 })
}

fn norm(rows: u64) -> Op {
    Op::Norm(RowNorm { rows, width: 1024, backward: false, element: ElementType::Bf16 })
}

/// Causal attention of 32 heads of 128 over two sequences.
fn core(tokens: u64) -> AttentionCore {
    AttentionCore {
        pass: CorePass::Forward,
        fused: true,
        batch: 2,
        heads: 32,
        kv_heads: 32,
        queries: tokens,
        keys: tokens,
        query_dim: 128,
        value_dim: 128,
        causal: true,
        dropout: false,
        element: ElementType::Bf16,
    }
}

fn built_in() -> DeviceModel {
    device_model("h200-sxm").unwrap().0
}

/// Activations at 2.5 TB/s and norms at 2 TB/s.
fn moved_data() -> Vec<Timed> {
    let sizes = [1 << 16, 1 << 20, 1 << 23, 1 << 25];
    let activations = sizes.map(|elements| {
        let op = activation(elements);
        timed(op, op.bytes_moved().0 as f64 / 2.5e12)
    });
    let norms = sizes.map(|elements| {
        let op = norm(elements / 1024);
        timed(op, op.bytes_moved().0 as f64 / 2e12)
    });
    activations.into_iter().chain(norms).collect()
}

#[test]
fn kernels_that_move_data_have_a_start_and_a_rate_by_kind() {
    let samples = moved_data();
    let found = start(&samples).unwrap();
    near(found.value, START, 1e-6);
    assert_eq!((found.shapes, found.instructions), (8, 56));
    let rates = rates(&samples, found.value);
    near(rates[&KernelKind::Activation].value, 2.5e12, 1e-6);
    near(rates[&KernelKind::Norm].value, 2e12, 1e-6);
    let all = moving(&samples, found.value).unwrap().value;
    assert!(all > 2e12 && all < 2.5e12, "{all:e}");
    // Two sizes of a kind do not tell.
    assert_eq!(start(&samples[..2]), None);
}

#[test]
fn products_reach_the_share_that_made_them() {
    let mut truth = built_in();
    (truth.gemm.efficiency.value, truth.gemm.half_depth.value) = (0.41, 150.0);
    let sides =
        [(8192, 4096, 12_288), (8192, 2048, 6144), (4096, 4096, 8192), (64, 64, 64), (8192, 16_384, 2048)];
    let made = |element| {
        sides.map(|(rows, columns, depth)| {
            let op = Linear { batch: 1, rows, columns, depth, element, over_tokens: false };
            timed(Op::Linear(op), gemm::arithmetic(&op, &truth).0)
        })
    };
    let mut model = built_in();
    let found = efficiency(&made(ElementType::Bf16), &model, START).unwrap();
    near(found.value.0, 0.41, 1e-6);
    assert_eq!((found.value.1, found.shapes), (150.0, 4), "the small product tells of launches");
    model.gemm.half_depth.value = 150.0;
    near(efficiency_fp32(&made(ElementType::Fp32), &model, START).unwrap().value, 0.41, 1e-6);
    assert_eq!(efficiency(&[], &truth, START), None);
}

#[test]
fn attention_reaches_the_share_that_made_it() {
    let model = built_in();
    let samples = [1024, 2048, 4096].map(|tokens| {
        let core = core(tokens);
        let peak = model.peak(ElementType::Bf16) * 0.23;
        timed(Op::Attention(core), fused_attention(&core, &model, peak).0)
    });
    near(attention(&samples, CorePass::Forward, &model, START).unwrap().value, 0.23, 1e-6);
    assert_eq!(attention(&samples, CorePass::Backward, &model, START), None);
}

#[test]
fn copies_have_a_start_and_the_rate_of_the_slower_way() {
    let made = [4096_u64, 65_536, 1 << 20, 1 << 26].map(|bytes| Copied {
        memory: HostMemory::Pinned,
        bytes: Bytes(bytes),
        to_gpu: 8e-6 + bytes as f64 / 50e9,
        to_host: 8e-6 + bytes as f64 / 55e9,
    });
    let (rate, seconds) = copies(&made, HostMemory::Pinned).unwrap().value;
    near(rate, 50e9, 1e-6);
    near(seconds, 8e-6, 1e-6);
    assert_eq!(copies(&made, HostMemory::Pageable), None);
}
