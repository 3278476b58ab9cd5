//! What an instruction counts for, where floating-point operations are counted.

use crate::ptx::Type;

/// The statement of a thread that has executed the instruction; nothing for one that computes no floats.
pub fn counted(opcode: &str) -> String {
    match flops(opcode) {
        Some((unit, count)) => format!("t->flops[{}] += {count};\n", unit as usize),
        None => String::new(),
    }
}

/// Their places are those of `Thread::flops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Tensor,
    Single,
    Double,
}

fn flops(opcode: &str) -> Option<(Unit, u64)> {
    let mut parts = opcode.split('.');
    let each = match parts.next()? {
        "add" | "sub" | "mul" => 1,
        "fma" | "mad" => 2,
        "mma" => return Some((Unit::Tensor, of_lane(parts.find_map(shape)?))),
        _ => return None,
    };
    match parts.find_map(Type::named)? {
        Type::Float32 | Type::Bfloat16 => Some((Unit::Single, each)),
        Type::Bfloat16Pair => Some((Unit::Single, 2 * each)),
        Type::Float64 => Some((Unit::Double, each)),
        _ => None,
    }
}

/// m, n and k of a name such as `m16n8k16`.
fn shape(name: &str) -> Option<[u64; 3]> {
    let (m, rest) = name.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

/// Each of the 32 lanes counts its share of the warp's product.
fn of_lane([m, n, k]: [u64; 3]) -> u64 {
    2 * m * n * k / 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_count_what_they_compute() {
        assert_eq!(flops("add.f32"), Some((Unit::Single, 1)));
        assert_eq!(flops("fma.rn.f32"), Some((Unit::Single, 2)));
        assert_eq!(flops("fma.rn.bf16x2"), Some((Unit::Single, 4)));
        assert_eq!(flops("mul.f64"), Some((Unit::Double, 1)));
        let product = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
        assert_eq!(flops(product), Some((Unit::Tensor, 2 * 16 * 8 * 16 / 32)));
        for other in ["add.s32", "mad.lo.u64", "fma", "ex2.approx.f32", "ld.global.f32", "max.f32"] {
            assert_eq!(flops(other), None, "{other}");
        }
    }
}
