//! A product of matrices as `libcublasLt` does it: sums in f32, columns one behind the other.

use crate::library::Layout;
use gpu::compare::{from_bf16, to_bf16};
use gpu::{Access, Emulator, Fault};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32,
    Bf16,
}

impl Element {
    pub const fn size(self) -> u64 {
        match self {
            Element::F32 => 4,
            Element::Bf16 => 2,
        }
    }
}

/// A matrix where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    pub address: u64,
    pub layout: Layout,
    pub transposed: bool,
}

/// output = `scale` · left · right + `kept` · addend + bias.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    pub left: Matrix,
    pub right: Matrix,
    pub addend: Matrix,
    pub output: Matrix,
    pub bias: Option<u64>,
    pub scale: f32,
    pub kept: f32,
    pub depth: u64,
    /// That the depth is cut into; each is a matrix in the workspace.
    pub parts: u64,
    pub workspace: u64,
}

/// What a matrix held.
struct Values {
    values: Vec<f32>,
    matrix: Matrix,
}

impl Values {
    fn at(&self, row: u64, column: u64) -> f32 {
        let (row, column) = if self.matrix.transposed { (column, row) } else { (row, column) };
        self.values[(column * self.matrix.layout.rows + row) as usize]
    }
}

impl Matrix {
    /// Its columns, as starts and bytes.
    fn columns(self) -> impl Iterator<Item = (u64, u64)> {
        let Layout { element, rows, columns, stride } = self.layout;
        (0..columns)
            .map(move |column| (self.address + column * stride * element.size(), rows * element.size()))
    }
}

/// The device's memory, and what has been touched of it.
struct Memory<'m> {
    device: &'m mut Emulator,
    accesses: Vec<Access>,
}

impl Memory<'_> {
    fn read(&mut self, (start, bytes): (u64, u64), element: Element) -> Result<Vec<f32>, Fault> {
        self.accesses.push(Access { start, end: start + bytes, write: false });
        let bytes = self.device.read(start, bytes as usize)?;
        Ok(match element {
            Element::F32 => {
                bytes.as_chunks().0.iter().map(|bytes: &[u8; 4]| f32::from_le_bytes(*bytes)).collect()
            }
            Element::Bf16 => {
                bytes.as_chunks().0.iter().map(|bytes| from_bf16(u16::from_le_bytes(*bytes))).collect()
            }
        })
    }

    fn write(&mut self, start: u64, element: Element, values: &[f32]) -> Result<(), Fault> {
        let bytes: Vec<u8> = match element {
            Element::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Element::Bf16 => values.iter().flat_map(|value| to_bf16(*value).to_le_bytes()).collect(),
        };
        self.accesses.push(Access { start, end: start + bytes.len() as u64, write: true });
        self.device.write(start, &bytes)
    }

    fn matrix(&mut self, matrix: Matrix) -> Result<Values, Fault> {
        let mut values = vec![];
        for column in matrix.columns() {
            values.extend(self.read(column, matrix.layout.element)?);
        }
        Ok(Values { values, matrix })
    }
}

impl Product {
    /// Does it, and says what it touched.
    pub fn perform(&self, device: &mut Emulator) -> Result<Vec<Access>, Fault> {
        let mut memory = Memory { device, accesses: vec![] };
        let (left, right) = (memory.matrix(self.left)?, memory.matrix(self.right)?);
        let Layout { element, rows, columns, .. } = self.output.layout;
        let sum_of = |depths: std::ops::Range<u64>| -> Vec<f32> {
            let places = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
            let sum = |(row, column)| {
                depths.clone().map(|depth| left.at(row, depth) * right.at(depth, column)).sum::<f32>()
            };
            places.map(sum).collect()
        };
        let sums = if self.parts > 1 {
            let bytes = rows * columns * Element::F32.size();
            for part in 0..self.parts {
                let [first, last] = [part, part + 1].map(|part| self.depth * part / self.parts);
                memory.write(self.workspace + part * bytes, Element::F32, &sum_of(first..last))?;
            }
            let mut sums = vec![0.0; (rows * columns) as usize];
            for part in 0..self.parts {
                let values = memory.read((self.workspace + part * bytes, bytes), Element::F32)?;
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
            sums
        } else {
            sum_of(0..self.depth)
        };
        // What is multiplied by zero is not read.
        let kept = if self.kept == 0.0 { None } else { Some(memory.matrix(self.addend)?) };
        let bias = match self.bias {
            Some(bias) => memory.read((bias, rows * element.size()), element)?,
            None => vec![0.0; rows as usize],
        };
        for (column, (start, _)) in self.output.columns().enumerate() {
            let value = |row: usize| {
                let kept = kept.as_ref().map_or(0.0, |kept| self.kept * kept.at(row as u64, column as u64));
                self.scale * sums[column * rows as usize + row] + kept + bias[row]
            };
            let values: Vec<f32> = (0..rows as usize).map(value).collect();
            memory.write(start, element, &values)?;
        }
        Ok(memory.accesses)
    }
}
