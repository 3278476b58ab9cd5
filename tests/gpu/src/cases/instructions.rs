//! Single PTX instructions against what Rust computes: a thread for each triple of operands, results bit for bit.

use super::Case;
use crate::compare::{Random, equal, to_bf16};
use crate::{Argument, Gpu, Launch};

pub const CASES: &[Case] =
    &[Case { name: "integers", run: integers }, Case { name: "numbers", run: numbers }];

/// The instruction, with %0 for the result and %1 to %3 for the operands, and what it means.
type Row = (&'static str, fn(u32, u32, u32) -> u32);

/// Runs a kernel of all the rows, written here.
fn run(gpu: &mut Gpu, name: &str, rows: &[Row], operands: &[[u32; 3]]) -> Result<(), String> {
    let mut source = String::from(
        "extern \"C\" __global__ void rows(const unsigned *operands, unsigned *results, int count) {\n\
         int i = blockIdx.x * blockDim.x + threadIdx.x;\n if (i >= count) return;\n\
         unsigned a = operands[3 * i], b = operands[3 * i + 1], c = operands[3 * i + 2], r;\n",
    );
    for (row, (instruction, _)) in rows.iter().enumerate() {
        source.push_str(&format!(
            "asm volatile(\"{{ .reg .pred p, q; .reg .b64 l, m; .reg .b16 h, k; .reg .f32 f, g; .reg .f64 d; {instruction} }}\" \
             : \"=r\"(r) : \"r\"(a), \"r\"(b), \"r\"(c));\nresults[{row} * count + i] = r;\n"
        ));
    }
    source.push('}');
    let module = gpu.load_text(name, &source, &[])?;
    let flat: Vec<u32> = operands.iter().flatten().copied().collect();
    let (from, to) = (gpu.upload(&flat), gpu.uninitialised::<u32>(rows.len() * operands.len()));
    let blocks = operands.len().div_ceil(64) as u32;
    let launch = Launch { kernel: "rows", grid: [blocks, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
    let count = Argument::I32(operands.len() as i32);
    gpu.launch(module, &launch, &[Argument::Buffer(from), Argument::Buffer(to), count])?;
    let results = gpu.download::<u32>(to);
    for ((instruction, meaning), results) in rows.iter().zip(results.chunks(operands.len())) {
        for (&[a, b, c], &result) in operands.iter().zip(results) {
            let what = format!("{instruction} of {a:#x}, {b:#x}, {c:#x}");
            equal(&what, &[format!("{result:#x}")], &[format!("{:#x}", meaning(a, b, c))])?;
        }
    }
    Ok(())
}

const INTEGERS: &[Row] = &[
    ("mul.hi.u32 %0, %1, %2;", |a, b, _| ((u64::from(a) * u64::from(b)) >> 32) as u32),
    ("mul.hi.s32 %0, %1, %2;", |a, b, _| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
    ("mad.lo.s32 %0, %1, %2, %3;", |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
    ("mul.wide.s32 l, %1, %2; mov.b64 {_, %0}, l;", |a, b, _| {
        ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32
    }),
    ("or.b32 %0, %2, 1; div.s32 %0, %1, %0;", |a, b, _| (a as i32).wrapping_div((b | 1) as i32) as u32),
    ("or.b32 %0, %2, 1; rem.u32 %0, %1, %0;", |a, b, _| a % (b | 1)),
    ("shl.b32 %0, %1, %2;", |a, b, _| a.checked_shl(b).unwrap_or(0)),
    ("shr.s32 %0, %1, %2;", |a, b, _| ((a as i32) >> b.min(31)) as u32),
    ("shr.u32 %0, %1, %2;", |a, b, _| a.checked_shr(b).unwrap_or(0)),
    ("shf.l.wrap.b32 %0, %1, %2, %3;", |a, b, c| {
        ((u64::from(b) << 32 | u64::from(a)) << (c & 31) >> 32) as u32
    }),
    ("shf.r.clamp.b32 %0, %1, %2, %3;", |a, b, c| ((u64::from(b) << 32 | u64::from(a)) >> c.min(32)) as u32),
    ("and.b32 %0, %2, 7; bfe.s32 %0, %1, %0, 9;", |a, b, _| ((a << (23 - (b & 7))) as i32 >> 23) as u32),
    ("and.b32 %0, %2, 31; bfe.u32 %0, %1, %0, 5;", |a, b, _| (a >> (b & 31)) & 31),
    ("bfi.b32 %0, %1, %2, 11, 6;", |a, b, _| (b & !(63 << 11)) | (a & 63) << 11),
    ("prmt.b32 %0, %1, %2, 0x3A71;", |a, b, _| {
        let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
        let sign = if bytes[2] & 128 != 0 { 255 } else { 0 };
        u32::from_le_bytes([bytes[1], bytes[7], sign, bytes[3]])
    }),
    ("lop3.b32 %0, %1, %2, %3, 0xE8;", |a, b, c| (a & b) | (a & c) | (b & c)),
    ("lop3.b32 %0, %1, %2, %3, 0x2C;", |a, b, c| (a & !b & c) | (!a & b)),
    ("clz.b32 %0, %1;", |a, _, _| a.leading_zeros()),
    ("popc.b32 %0, %1;", |a, _, _| a.count_ones()),
    ("brev.b32 %0, %1;", |a, _, _| a.reverse_bits()),
    ("bfind.u32 %0, %1;", |a, _, _| if a == 0 { u32::MAX } else { a.ilog2() }),
    ("sad.s32 %0, %1, %2, %3;", |a, b, c| (a as i32).abs_diff(b as i32).wrapping_add(c)),
    ("min.s32 %0, %1, %2;", |a, b, _| (a as i32).min(b as i32) as u32),
    ("setp.lt.s32 p|q, %1, %2; selp.u32 %0, 1, 2, q;", |a, b, _| if (a as i32) < b as i32 { 2 } else { 1 }),
    ("setp.hi.u32 p, %1, %2; @!p mov.u32 %0, %3; @p mov.u32 %0, 5;", |a, b, c| if a > b { 5 } else { c }),
    ("slct.u32.s32 %0, %1, %2, %3;", |a, b, c| if c as i32 >= 0 { a } else { b }),
    ("set.eq.u32.u32 %0, %1, %2;", |a, b, _| if a == b { u32::MAX } else { 0 }),
    ("cvt.s32.s8 %0, %1;", |a, _, _| i32::from(a as i8) as u32),
    ("cvt.sat.u8.s32 %0, %1;", |a, _, _| (a as i32).clamp(0, 255) as u32),
    ("cvt.u16.u32 h, %1; mul.wide.u16 %0, h, h;", |a, _, _| (a & 0xffff) * (a & 0xffff)),
    ("mov.b32 {h, k}, %1; mov.b32 %0, {k, h};", |a, _, _| a.rotate_left(16)),
    ("cvt.rn.f32.s32 f, %1; mov.b32 %0, f;", |a, _, _| (a as i32 as f32).to_bits()),
    ("mov.b64 l, {%1, %2}; cvt.rn.f32.u64 f, l; mov.b32 %0, f;", |a, b, _| {
        ((u64::from(b) << 32 | u64::from(a)) as f32).to_bits()
    }),
];

fn integers(gpu: &mut Gpu) -> Result<(), String> {
    let ends = [0, 1, 31, 32, 33, 0x7fff_ffff, 0x8000_0000, u32::MAX];
    let mut operands: Vec<[u32; 3]> = vec![];
    for a in ends {
        operands.extend(ends.map(|b| [a, b, a ^ b >> 3]));
    }
    let mut random = Random(11);
    operands.extend((0..100).map(|_| [random.bits() as u32, random.bits() as u32, random.bits() as u32]));
    run(gpu, "integers.cu", INTEGERS, &operands)
}

fn float(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

/// An exact value rounded down or up.
fn down(exact: f64) -> u32 {
    let near = exact as f32;
    if f64::from(near) > exact { near.next_down().to_bits() } else { near.to_bits() }
}

fn up(exact: f64) -> u32 {
    (down(-exact)) ^ 0x8000_0000
}

const NUMBERS: &[Row] = &[
    ("fma.rn.f32 %0, %1, %2, %3;", |a, b, c| (float(a) * float(b) + float(c)).bits()),
    ("fma.rm.f32 %0, %1, %2, %3;", |a, b, c| down(float(a) * float(b) + float(c))),
    ("fma.rp.f32 %0, %1, %2, %3;", |a, b, c| up(float(a) * float(b) + float(c))),
    ("add.rm.f32 %0, %1, %2;", |a, b, _| down(float(a) + float(b))),
    ("mul.rp.f32 %0, %1, %2;", |a, b, _| up(float(a) * float(b))),
    ("add.rz.f32 %0, %1, %2;", |a, b, _| {
        let exact = float(a) + float(b);
        if exact > 0.0 { down(exact) } else { up(exact) }
    }),
    ("div.rn.f32 %0, %1, %2;", |a, b, _| (f32::from_bits(a) / f32::from_bits(b)).to_bits()),
    ("abs.f32 f, %1; sqrt.rn.f32 %0, f;", |a, _, _| f32::from_bits(a).abs().sqrt().to_bits()),
    ("min.f32 %0, %1, %2;", |a, b, _| float(a).min(float(b)).bits()),
    ("mul.sat.f32 %0, %1, %2;", |a, b, _| (float(a) * float(b)).clamp(0.0, 1.0).bits()),
    ("copysign.f32 %0, %1, %2;", |a, b, _| float(b).copysign(float(a)).bits()),
    ("cvt.rni.s32.f32 %0, %1;", |a, _, _| float(a).round_ties_even() as i32 as u32),
    ("cvt.rzi.u32.f32 %0, %1;", |a, _, _| float(a) as u32),
    ("cvt.rmi.f32.f32 %0, %1;", |a, _, _| float(a).floor().bits()),
    ("cvt.rn.bf16.f32 h, %1; mov.b32 %0, {h, h};", |a, _, _| {
        u32::from(to_bf16(f32::from_bits(a))) * 0x1_0001
    }),
    ("cvt.rz.bf16x2.f32 %0, %1, %2;", |a, b, _| (a & 0xffff_0000) | b >> 16),
    ("cvt.rna.tf32.f32 %0, %1; and.b32 %0, %0, 0xffffe000;", |a, _, _| a.wrapping_add(0x1000) & !0x1fff),
    ("cvt.f64.f32 d, %1; mul.f64 d, d, d; cvt.rn.f32.f64 %0, d;", |a, _, _| (float(a) * float(a)).bits()),
    ("setp.ltu.f32 p, %1, %2; selp.b32 %0, 3, 4, p;", |a, b, _| if float(a) < float(b) { 3 } else { 4 }),
    ("mov.b32 f, 0f7fc00000; setp.ltu.f32 p, %1, f; selp.b32 %0, 3, 4, p;", |_, _, _| 3),
    ("mov.b32 f, 0f7fc00000; setp.ne.f32 p, %1, f; selp.b32 %0, 3, 4, p;", |_, _, _| 4),
    ("mov.b32 f, 0f7fc00000; max.f32 %0, %1, f;", |a, _, _| a),
];

trait Bits {
    fn bits(self) -> u32;
}

impl Bits for f64 {
    fn bits(self) -> u32 {
        (self as f32).to_bits()
    }
}

/// Numbers of few bits, so that a product and a sum are exact in f64 and the reference rounds once.
fn numbers(gpu: &mut Gpu) -> Result<(), String> {
    let mut random = Random(12);
    let mut number = || {
        let scale = 2f32.powi(random.below(12) as i32 - 6);
        ((random.uniform() * 8191.0).round() + 0.5) / 64.0 * scale
    };
    let operands: Vec<[u32; 3]> =
        (0..300).map(|_| [number(), number(), number()].map(f32::to_bits)).collect();
    run(gpu, "numbers.cu", NUMBERS, &operands)
}
