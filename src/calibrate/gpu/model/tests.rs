//! What a cost model of a measured GPU says of its numbers.

use super::*;
use crate::calibrate::gpu::programs::SIZES;
use crate::cluster::Cluster;
use crate::cost::{DevicePricing, Pricing};
use crate::execute::device::cuda::measure::{Card, Copied, Launch};
use crate::execute::run::{Run, Settings};
use crate::lower::Stream;
use crate::ops::{Elementwise, ElementwiseKind, KernelKind, Linear, Op};
use crate::profile::{device_model, parse_device_model};
use crate::units::ElementType;

fn measured() -> Measured {
    let activations = |element| {
        [1_u64 << 16, 1 << 20, 1 << 24].map(|elements| {
            let op = Elementwise { kind: ElementwiseKind::Activation, elements, operands: 2, element };
            Timed { op: Op::Elementwise(op), seconds: 2e-6 + op.bytes_moved().0 as f64 / 2e12, count: 9 }
        })
    };
    let product = Linear {
        batch: 1,
        rows: 8192,
        columns: 8192,
        depth: 8192,
        element: ElementType::Bf16,
        over_tokens: false,
    };
    let product = Timed { op: Op::Linear(product), seconds: 3e-3, count: 9 };
    Measured {
        card: Card {
            name: "NVIDIA H200".to_owned(),
            memory: Bytes(150_000_000_000),
            multiprocessors: 132,
            driver: "13.0".to_owned(),
        },
        context: Bytes(500_000_000),
        code: Bytes(20_000_000),
        bf16: [activations(ElementType::Bf16).as_slice(), &[product]].concat(),
        fp32: activations(ElementType::Fp32).to_vec(),
        library: None,
        gap: 1.5e-6,
        tracing: 0.5e-6,
        launch: Launch { on_gpu: 2.4e-6, on_host: 2e-6 },
        copies: [1_u64 << 16, 1 << 26]
            .map(|bytes| Copied {
                memory: HostMemory::Pinned,
                bytes: Bytes(bytes),
                to_gpu: 1e-5 + bytes as f64 / 5e10,
                to_host: 1e-5 + bytes as f64 / 6e10,
            })
            .to_vec(),
        copied_in_steps: Vec::new(),
        host_steps: Vec::new(),
        host_adamw: 1e11,
        cores: 16,
        host_memory: Bytes(1 << 36),
        programs: 3,
        left_out: 0,
    }
}

#[test]
fn measured_numbers_say_so_and_others_that_they_are_built_in() {
    let base = device_model("h200-sxm").unwrap().0;
    let (model, changed) = model(&base, &measured()).unwrap();
    let text = serde_json::to_string(&model).unwrap();
    assert_eq!(parse_device_model(&text).unwrap().0, model);
    let own: Vec<&str> = changed.iter().map(|change| change.path.as_str()).collect();
    for path in [
        "memory",
        "gemm.efficiency",
        "memory_bound.efficiency",
        "kernels.activation.bf16",
        "kernel_time",
        "host_link.latency",
        "host.optimizer_efficiency",
        "reserve.context",
    ] {
        assert!(own.contains(&path), "{path}: {own:?}");
    }
    for field in model.fields() {
        let is_own = own.contains(&field.path.as_str());
        assert_eq!(
            is_own,
            !field.source.starts_with("built-in h200-sxm: "),
            "{}: {}",
            field.path,
            field.source
        );
        if is_own {
            assert_eq!(field.evidence, Evidence::Measured, "{}", field.path);
            assert!(field.source.contains("NVIDIA H200, CUDA 13.0"), "{}", field.source);
        } else {
            let was = base.fields().into_iter().find(|other| other.path == field.path).unwrap();
            assert_eq!((was.value, was.evidence), (field.value, field.evidence), "{}", field.path);
        }
    }
    // No link between GPUs was measured, nor attention.
    let links = ["scale_up", "network", "collective_share", "attention"];
    assert!(!own.iter().any(|path| links.iter().any(|link| path.starts_with(link))), "{own:?}");
    assert!(
        model.gemm.efficiency.source.contains("1 shapes, 9 instructions"),
        "{}",
        model.gemm.efficiency.source
    );
    assert!((model.kernel_time.value.0 - 3e-6).abs() < 1e-9, "{:?}", model.kernel_time);
    assert!((model.kernels[&KernelKind::Activation].fp32.value.0 / 2e12 - 1.0).abs() < 1e-3);
    assert!((model.host_link.efficiency.value * model.host_link.bandwidth.value.0 / 5e10 - 1.0).abs() < 1e-3);
}

#[test]
fn what_was_not_measured_is_left() {
    let base = device_model("h200-sxm").unwrap().0;
    let nothing = Measured {
        bf16: Vec::new(),
        fp32: Vec::new(),
        copies: Vec::new(),
        context: Bytes::ZERO,
        code: Bytes::ZERO,
        ..measured()
    };
    let (model, changed) = model(&base, &nothing).unwrap();
    assert_eq!(model.gemm.efficiency.value, base.gemm.efficiency.value);
    assert_eq!(model.reserve.context.kind, base.reserve.context.kind);
    let own: Vec<&str> = changed.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(own, ["memory", "multiprocessors", "host.memory", "host.cores", "host.optimizer_efficiency"]);
}

/// What the compute instructions of the measured programs in `element` take on a GPU of `model`, by op.
fn priced(model: &DeviceModel, element: ElementType) -> Vec<(Op, f64)> {
    let cluster = Cluster::uniform("1x1xmade".to_owned(), 1, 1, model.clone(), String::new());
    let programs = SIZES[2..].iter().flat_map(|size| size.others().into_iter().chain([size.first()]));
    let mut priced = Vec::new();
    for small in programs.filter(|small| small.precision == element) {
        let run = Run::new(small.job().unwrap(), Settings::default()).unwrap();
        let pricing = DevicePricing::new(&cluster, run.engine, &run.strategy, run.workload.compute_type());
        let templates = run.program.ranks.iter().flat_map(|rank| &rank.templates);
        for instruction in templates.flat_map(|template| &template.instructions) {
            if instruction.stream == Stream::Compute && instruction.op != Op::Release {
                priced.push((instruction.op, pricing.price(&instruction.op, 0).seconds.0));
            }
        }
    }
    priced
}

#[test]
fn what_a_gpu_of_known_numbers_took_is_predicted_by_what_is_found() {
    let base = device_model("h200-sxm").unwrap().0;
    let told = |rate: f64| Sourced { value: BytesPerSecond(rate), ..base.memory_bandwidth.clone() };
    let mut truth = base.clone();
    (truth.gemm.efficiency.value, truth.gemm.half_depth.value) = (0.38, 100.0);
    truth.gemm.efficiency_fp32 = Some(Sourced { value: 0.6, ..base.gemm.efficiency.clone() });
    truth.attention.forward_efficiency.value = 0.25;
    truth.attention.backward_efficiency.value = 0.2;
    truth.memory_bound.efficiency.value = 0.6;
    truth.kernel_time.value = Seconds(4e-6);
    for (kind, fp32, bf16) in [(KernelKind::Norm, 2.5e12, 2e12), (KernelKind::Adamw, 3.6e12, 3.5e12)] {
        truth.kernels.insert(kind, KernelRates { fp32: told(fp32), fp64: None, bf16: Some(told(bf16)) });
    }
    // Of the four microseconds, one lies between instructions.
    let samples = |element| {
        let made = priced(&truth, element).into_iter();
        made.map(|(op, seconds)| Timed { op, seconds: seconds - 1e-6, count: 1 }).collect()
    };
    let made = Measured {
        bf16: samples(ElementType::Bf16),
        fp32: samples(ElementType::Fp32),
        gap: 1e-6,
        tracing: 0.0,
        ..measured()
    };
    let (found, _) = model(&base, &made).unwrap();
    for element in [ElementType::Bf16, ElementType::Fp32] {
        let (predicted, took) = (priced(&found, element), priced(&truth, element));
        let [sum, whole] =
            [&predicted, &took].map(|priced| priced.iter().map(|(_, seconds)| seconds).sum::<f64>());
        assert!((sum / whole - 1.0).abs() < 0.01, "{element}: {sum}, not {whole}");
        for ((op, predicted), (_, took)) in predicted.iter().zip(&took) {
            assert!((predicted / took).ln().abs() < 0.05, "{element}: {op:?}: {predicted}, not {took}");
        }
    }
}
