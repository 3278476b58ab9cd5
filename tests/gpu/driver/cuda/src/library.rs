//! What programs have made of `libcublasLt`, by handles that are never given twice, and which algorithm it proposes.

use crate::driver::Handle;
use crate::failure::{Answer, Failure, log};
use crate::product::Element;
use std::collections::BTreeMap;

pub use cudarc::cublaslt::sys::cublasStatus_t as Status;

/// A workspace begins at a multiple of this.
const WORKSPACE_ALIGNMENT: u64 = 256;
/// Lines of bf16 begin at multiples of this, or the product isn't known. NVIDIA's library knows products of any
/// alignment; programs must do without an algorithm all the same.
const LINE_ALIGNMENT: u64 = 16;
/// A depth of more is cut in two parts, which meet in the workspace.
const WHOLE_DEPTH: u64 = 16;

#[derive(Default)]
pub struct Library {
    /// The devices of handles.
    pub handles: BTreeMap<u64, usize>,
    pub products: BTreeMap<u64, Description>,
    pub layouts: BTreeMap<u64, Layout>,
    pub preferences: BTreeMap<u64, Preference>,
    algorithms: Vec<Algorithm>,
}

/// A product, but for its matrices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Description {
    /// Left and right.
    pub transposed: [bool; 2],
    pub has_bias: bool,
    pub bias: u64,
}

/// A matrix whose columns of `rows` elements begin every `stride` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub element: Element,
    pub rows: u64,
    pub columns: u64,
    pub stride: u64,
}

/// What a program wishes of an algorithm; all at first as NVIDIA documents.
#[derive(Clone, Copy, Debug)]
pub struct Preference {
    pub workspace: u64,
    pub reductions: u32,
    /// Of left, right, addend and output.
    pub alignments: [u32; 4],
}

impl Default for Preference {
    fn default() -> Self {
        Preference { workspace: 0, reductions: 7, alignments: [256; 4] }
    }
}

/// All that an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    pub transposed: [bool; 2],
    pub has_bias: bool,
    /// Left, right, addend and output.
    pub layouts: [Layout; 4],
}

#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    pub problem: Problem,
    pub alignments: [u32; 4],
    pub parts: u64,
    pub workspace: u64,
}

/// Marks algorithms of this library.
const MAGIC: u64 = 0x6661_6b65_6c74;

/// A status of the library's, with words for the log.
pub fn answer<T>(status: Status, text: impl Into<String>) -> Answer<T> {
    Err(Failure { code: status as u32, text: Some(text.into()) })
}

/// An object that a program names. NVIDIA's library would read memory that isn't the object's any more.
pub fn named<'l, T>(objects: &'l mut BTreeMap<u64, T>, handle: Handle, what: &str) -> &'l mut T {
    match objects.get_mut(&(handle as u64)) {
        Some(object) => object,
        None => {
            log("cublasLt", &format!("{handle:?} is no {what}, or one that has been destroyed"));
            std::process::abort()
        }
    }
}

impl Problem {
    /// Rows and columns of the output, and the depth.
    pub fn sizes(&self) -> [u64; 3] {
        let [left, _, _, output] = self.layouts;
        [output.rows, output.columns, if self.transposed[0] { left.rows } else { left.columns }]
    }

    fn check(&self) -> Answer {
        let [m, n, k] = self.sizes();
        let shape = |layout: &Layout| (layout.rows, layout.columns);
        let turned = |(rows, columns), turn| if turn { (columns, rows) } else { (rows, columns) };
        let wanted = [turned((m, k), self.transposed[0]), turned((k, n), self.transposed[1]), (m, n), (m, n)];
        for (layout, wanted) in self.layouts.iter().zip(wanted) {
            if shape(layout) != wanted || layout.stride < layout.rows || m * n * k == 0 {
                return answer(Status::CUBLAS_STATUS_INVALID_VALUE, format!("{layout:?}, not {wanted:?}"));
            }
        }
        Ok(())
    }

    /// Whether the library has such a product, whose matrices begin at multiples of `alignments`.
    fn is_known(&self, alignments: [u32; 4]) -> bool {
        let [left, right, addend, output] = self.layouts.map(|layout| layout.element);
        let types = match (left, right) {
            (Element::Bf16, Element::Bf16) => true,
            (Element::F32, Element::F32) => output == Element::F32,
            _ => false,
        };
        let aligned = self.layouts.iter().zip(alignments).all(|(layout, alignment)| {
            let is_multiple = |bytes: u64| bytes.is_multiple_of(LINE_ALIGNMENT);
            layout.element == Element::F32
                || (is_multiple(alignment.into()) && is_multiple(layout.stride * layout.element.size()))
        });
        types && addend == output && aligned
    }
}

impl Library {
    /// The number and the workspace of an algorithm for a product; none if the library has none.
    pub fn propose(&mut self, problem: Problem, preference: Preference) -> Answer<Option<([u64; 8], u64)>> {
        const IN_COMPUTE_TYPE: u32 = 2;
        problem.check()?;
        if !problem.is_known(preference.alignments) {
            return Ok(None);
        }
        let [m, n, k] = problem.sizes();
        let workspace = 2 * m * n * Element::F32.size();
        let cuts = k > WHOLE_DEPTH
            && workspace <= preference.workspace
            && preference.reductions & IN_COMPUTE_TYPE != 0;
        let (parts, workspace) = if cuts { (2, workspace) } else { (1, 0) };
        self.algorithms.push(Algorithm { problem, alignments: preference.alignments, parts, workspace });
        Ok(Some(([MAGIC, self.algorithms.len() as u64 - 1, 0, 0, 0, 0, 0, 0], workspace)))
    }

    /// What a program passes as an algorithm must have been proposed for this product.
    pub fn algorithm(&self, data: [u64; 8], problem: &Problem) -> Answer<Algorithm> {
        match self.algorithms.get(data[1] as usize).filter(|_| data[0] == MAGIC) {
            Some(algorithm) if algorithm.problem == *problem => Ok(*algorithm),
            Some(algorithm) => answer(
                Status::CUBLAS_STATUS_INVALID_VALUE,
                format!("the algorithm was proposed for {:?}, not for {problem:?}", algorithm.problem),
            ),
            None => answer(Status::CUBLAS_STATUS_INVALID_VALUE, "the algorithm was never proposed"),
        }
    }
}

impl Algorithm {
    /// Memory as it was told when the algorithm was proposed.
    pub fn check(&self, addresses: [u64; 4], (workspace, bytes): (u64, u64)) -> Answer {
        let invalid = |text: String| answer(Status::CUBLAS_STATUS_INVALID_VALUE, text);
        for (address, alignment) in addresses.into_iter().zip(self.alignments) {
            if !address.is_multiple_of(alignment.into()) {
                return invalid(format!("a matrix at {address:#x}, not at a multiple of {alignment}"));
            }
        }
        if bytes < self.workspace {
            return invalid(format!("{bytes} bytes of workspace of {}", self.workspace));
        }
        if self.workspace > 0 && !workspace.is_multiple_of(WORKSPACE_ALIGNMENT) {
            return invalid(format!(
                "a workspace at {workspace:#x}, not at a multiple of {WORKSPACE_ALIGNMENT}"
            ));
        }
        Ok(())
    }
}
