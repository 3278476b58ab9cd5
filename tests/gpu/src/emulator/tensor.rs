//! `mma` and `ldmatrix`: which element of a matrix each lane holds in each register, and the products.

use super::collective::kind;

/// The shape and the elements of a product: rows are always 16 and columns 8.
struct Shape {
    depth: usize,
    /// Elements of a register: two of bf16, one of tf32.
    packed: usize,
}

fn shape(mode: u32) -> Shape {
    if mode == kind::BF16 { Shape { depth: 16, packed: 2 } } else { Shape { depth: 8, packed: 1 } }
}

/// Registers of a lane for A and for B.
const OF_A: usize = 4;
const OF_B: usize = 2;

impl Shape {
    fn element(&self, register: u32, part: usize) -> f64 {
        let bits = if self.packed == 2 {
            (register >> (16 * part)) << 16
        } else {
            // The hardware ignores the 13 lowest bits.
            register & !0x1fff
        };
        f64::from(f32::from_bits(bits))
    }
}

/// D = A B + C of a warp: each lane's registers of A, B and C one behind the other, and its four of D back.
pub fn multiply(mode: u32, inputs: &[[u32; 12]; 32]) -> [[u32; 4]; 32] {
    let shape = shape(mode);
    let mut a = [[0.0f64; 16]; 16];
    let mut b = [[0.0f64; 8]; 16];
    for (lane, input) in inputs.iter().enumerate() {
        let (group, member) = (lane / 4, lane % 4);
        for (register, &bits) in input[..OF_A].iter().enumerate() {
            for part in 0..shape.packed {
                // Registers of A alternate between the upper and the lower eight rows.
                let row = group + 8 * (register % 2);
                let column = member * shape.packed + part + register / 2 * 4 * shape.packed;
                a[row][column] = shape.element(bits, part);
            }
        }
        for (register, &bits) in input[OF_A..OF_A + OF_B].iter().enumerate() {
            for part in 0..shape.packed {
                let row = member * shape.packed + part + register * 4 * shape.packed;
                b[row][group] = shape.element(bits, part);
            }
        }
    }
    let mut outputs = [[0; 4]; 32];
    for (lane, output) in outputs.iter_mut().enumerate() {
        for (register, output) in output.iter_mut().enumerate() {
            let (row, column) = (lane / 4 + 8 * (register / 2), lane % 4 * 2 + register % 2);
            let c = f32::from_bits(inputs[lane][OF_A + OF_B + register]);
            let sum: f64 = (0..shape.depth).map(|k| a[row][k] * b[k][column]).sum();
            *output = ((sum + f64::from(c)) as f32).to_bits();
        }
    }
    outputs
}

/// What each lane takes of `count` matrices of 8 x 8, whose rows of 16 bytes lanes 8 i .. 8 i + 8 have read.
pub fn load_matrix(count: usize, transposed: bool, rows: &[[u8; 16]; 32]) -> [[u32; 4]; 32] {
    let mut outputs = [[0; 4]; 32];
    for (lane, output) in outputs.iter_mut().enumerate() {
        for (matrix, output) in output.iter_mut().enumerate().take(count) {
            let element = |row: usize, column: usize| {
                let bytes = &rows[8 * matrix + row][2 * column..][..2];
                u32::from(u16::from_le_bytes([bytes[0], bytes[1]]))
            };
            let (group, pair) = (lane / 4, lane % 4 * 2);
            *output = match transposed {
                false => element(group, pair) | element(group, pair + 1) << 16,
                true => element(pair, group) | element(pair + 1, group) << 16,
            };
        }
    }
    outputs
}
