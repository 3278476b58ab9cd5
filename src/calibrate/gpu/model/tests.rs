//! What a cost model of a measured GPU says of its numbers.

use super::*;
use crate::execute::device::cuda::measure::{Card, Copied, Launch};
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
