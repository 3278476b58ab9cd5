//! Products of matrices, and the gradients of biases: which kernel, with which tiles.
//!
//! Arguments of `gemm` and `gemm_fma`: a, b, c, bias (or 0), m, n, k, strides of lines of a, b and c, their strides from
//! one matrix of a batch to the next, those from one batch to the next, (`gemm` only: [`Plan::split_depth`],) and whether
//! c is added to.
//! With a split, c is the workspace (f32, stride n, batch stride m·n), without bias and not added to; [`split_sum`]
//! follows.

use super::{Launch, Source};

/// The type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    Bf16,
    F32,
}

impl Element {
    const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "Bf16",
            Self::F32 => "float",
        }
    }

    const fn storage(self) -> &'static str {
        match self {
            Self::Bf16 => "-DSTORAGE_BF16",
            Self::F32 => "-DSTORAGE_F32",
        }
    }

    fn defined(self, name: &str) -> String {
        format!("-D{name}={}", self.name())
    }
}

/// One factor, as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    pub element: Element,
    /// Its lines are columns of the factor.
    pub transposed: bool,
    /// All lines begin at multiples of 16 bytes.
    pub aligned: bool,
}

/// Whether all lines of a matrix of bf16 at `address` begin at multiples of 16 bytes.
pub const fn is_aligned(address: u64, stride: u64, batch_stride: u64) -> bool {
    address.is_multiple_of(16) && stride.is_multiple_of(8) && batch_stride.is_multiple_of(8)
}

/// What is multiplied: (m, k) · (k, n), for each of `batch` matrices of each of `batches` batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub batch: u32,
    pub batches: u32,
    pub left: Factor,
    pub right: Factor,
    pub output: Element,
    /// Elements of f32 that a split of the depth may use.
    pub workspace: u64,
    pub multiprocessors: u32,
}

impl Product {
    fn matrices(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.batches)
    }
}

/// How a product is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub source: Source,
    pub launch: Launch,
    /// Parts that the depth is cut into; 1 where it is not.
    pub parts: u32,
    /// Depth of a part; 0 where it is not cut.
    pub split_depth: u32,
}

/// A tile of the kernel on tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub warps: [u32; 2],
    pub stages: u32,
    /// Blocks that a multiprocessor holds at a time.
    resident: u32,
    /// Multiply-adds a cycle of a full multiprocessor: what an H200 did with 8192³ at 1.98 GHz (312, 368, 262 TFLOP/s).
    rate: u32,
}

/// From large to small: large ones read less, small ones keep more multiprocessors busy.
pub const TILES: [Tile; 3] = [
    Tile { m: 128, n: 256, k: 32, warps: [2, 4], stages: 4, resident: 1, rate: 600 },
    Tile { m: 128, n: 128, k: 32, warps: [2, 2], stages: 4, resident: 2, rate: 700 },
    Tile { m: 64, n: 64, k: 64, warps: [2, 2], stages: 3, resident: 4, rate: 500 },
];

/// Cycles that a second kernel takes at least.
const LAUNCH_CYCLES: u64 = 4000;
/// Bytes a cycle that all multiprocessors together write and read.
const BYTES_PER_CYCLE: u64 = 1500;
/// The least depth of a part, and the most parts.
const LEAST_DEPTH: u32 = 512;
const MOST_PARTS: u32 = 16;

/// The kernel, its tile and its split for a product.
pub fn plan(product: &Product) -> Plan {
    if product.left.element == Element::F32 || product.right.element == Element::F32 {
        return plan_fma(product);
    }
    let split = |tile: Tile| parts_of(product, tile).map(move |parts| (tile, parts));
    let choices = TILES.into_iter().flat_map(split);
    let best = choices.min_by_key(|&(tile, parts)| cycles(product, tile, parts));
    let (tile, parts) = best.unwrap_or((TILES[0], 1));
    plan_with(product, tile, parts)
}

/// The plan with a tile and a number of parts.
pub fn plan_with(product: &Product, tile: Tile, parts: u32) -> Plan {
    let split_depth = if parts == 1 { 0 } else { part_depth(product.k, tile, parts) };
    let [warps_m, warps_n] = tile.warps;
    let output = if parts == 1 { product.output } else { Element::F32 };
    let mut options = vec![Element::Bf16.storage().to_owned(), output.defined("OUTPUT")];
    let sizes = [("TILE_M", tile.m), ("TILE_N", tile.n), ("TILE_K", tile.k), ("STAGES", tile.stages)];
    options.extend(sizes.map(|(name, size)| format!("-D{name}={size}")));
    options.extend([format!("-DWARPS_M={warps_m}"), format!("-DWARPS_N={warps_n}")]);
    options.extend(orders(product));
    for (side, factor) in [("LEFT", product.left), ("RIGHT", product.right)] {
        options.extend((!factor.aligned).then(|| format!("-D{side}_UNALIGNED")));
    }
    let launch = Launch {
        kernel: "gemm",
        grid: [blocks(product, tile.m, tile.n), product.batches, product.batch * parts],
        block: [warps_m * warps_n * 32, 1, 1],
        shared_bytes: tile.stages * (tile.m + tile.n) * tile.k * 2,
    };
    Plan { source: Source { file: "gemm/gemm.cu", options }, launch, parts, split_depth }
}

/// Without tensor cores.
fn plan_fma(product: &Product) -> Plan {
    let large =
        u64::from(blocks(product, 128, 128)) * product.matrices() >= u64::from(product.multiprocessors);
    let tile = if large { 128 } else { 64 };
    let storage = if product.right.element == Element::F32 { Element::F32 } else { Element::Bf16 };
    let mut options = vec![storage.storage().to_owned(), format!("-DTILE={tile}")];
    options.extend([
        product.left.element.defined("LEFT"),
        product.right.element.defined("RIGHT"),
        product.output.defined("OUTPUT"),
    ]);
    options.extend(orders(product));
    let launch = Launch {
        kernel: "gemm_fma",
        grid: [blocks(product, tile, tile), product.batches, product.batch],
        block: [256, 1, 1],
        shared_bytes: 0,
    };
    Plan { source: Source { file: "gemm/gemm_fma.cu", options }, launch, parts: 1, split_depth: 0 }
}

/// What follows a product that was split, of elements `output`. Arguments: the workspace, c, bias (or 0), the number of
/// parts, m, n, the stride of c, and whether c is added to.
pub fn split_sum(m: u32, n: u32, output: Element) -> (Source, Launch) {
    let options = vec![Element::Bf16.storage().to_owned(), output.defined("OUTPUT")];
    let blocks = (u64::from(m) * u64::from(n)).div_ceil(256) as u32;
    let launch = Launch { kernel: "split_sum", grid: [blocks, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
    (Source { file: "gemm/split_sum.cu", options }, launch)
}

/// Arguments: the output's gradient, the bias's, rows, columns, the stride of rows, and whether it is added to.
pub fn bias_gradient(columns: u32, storage: Element, output: Element) -> (Source, Launch) {
    let options = vec![storage.storage().to_owned(), output.defined("OUTPUT")];
    let grid = [columns.div_ceil(16), 1, 1];
    let launch = Launch { kernel: "bias_gradient", grid, block: [1024, 1, 1], shared_bytes: 0 };
    (Source { file: "linear/bias_gradient.cu", options }, launch)
}

fn orders(product: &Product) -> impl Iterator<Item = String> {
    let sides = [("LEFT", product.left.transposed), ("RIGHT", product.right.transposed)];
    sides.into_iter().filter(|&(_, transposed)| transposed).map(|(side, _)| format!("-D{side}_TRANSPOSED"))
}

fn blocks(product: &Product, m: u32, n: u32) -> u32 {
    product.m.div_ceil(m) * product.n.div_ceil(n)
}

/// The depth of each of `parts` parts: whole tiles.
fn part_depth(depth: u32, tile: Tile, parts: u32) -> u32 {
    depth.div_ceil(parts).next_multiple_of(tile.k)
}

/// In how many parts the depth may be cut.
fn parts_of(product: &Product, tile: Tile) -> impl Iterator<Item = u32> {
    let Product { m, n, k, workspace, .. } = *product;
    let space = workspace / (u64::from(m) * u64::from(n)).max(1);
    let most = if product.matrices() == 1 {
        space.min(u64::from((k / LEAST_DEPTH).min(MOST_PARTS))) as u32
    } else {
        1
    };
    // No part may be empty.
    (1..=most.max(1)).filter(move |&parts| parts == 1 || part_depth(k, tile, parts) * (parts - 1) < k)
}

/// An estimate of the cycles that a product takes.
fn cycles(product: &Product, tile: Tile, parts: u32) -> u64 {
    let blocks = u64::from(blocks(product, tile.m, tile.n)) * product.matrices() * u64::from(parts);
    let at_once = u64::from(product.multiprocessors.max(1) * tile.resident);
    let depth = u64::from(product.k.div_ceil(parts).next_multiple_of(tile.k));
    let work = u64::from(tile.m * tile.n * tile.resident) * depth / u64::from(tile.rate);
    let bytes =
        if parts == 1 { 0 } else { u64::from(product.m) * u64::from(product.n) * u64::from(8 * parts) };
    let second = if parts == 1 { 0 } else { LAUNCH_CYCLES + bytes / BYTES_PER_CYCLE };
    blocks.div_ceil(at_once) * work + second
}
