//! Products with the matrices of layers, forward and backward.

use std::ops::Range;

use super::{Done, Target, roles};
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::gemm::product;
use crate::execute::kernels::{linear, routing};
use crate::execute::layout::Section;
use crate::execute::matrix::{Matrix as View, MatrixMut};
use crate::execute::placement::Issue;
use crate::execute::rank::Unit;
use crate::execute::worker::Worker;
use crate::lower::kernel::{Into, Kernel, Matrix};
use crate::model::layer::LayerKind;
use crate::program::instruction::Holds;

/// One product among those of a matrix: which rows, of `depth` elements, of which tensor, which columns of the wide
/// operand.
struct Factor {
    role: &'static str,
    bias: Option<&'static str>,
    rows: Range<usize>,
    depth: usize,
    columns: Range<usize>,
}

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// The factors of `matrix`, whose outputs lie side by side in rows of the returned width.
    fn factors(
        &self,
        issue: &Issue,
        layer: u16,
        matrix: Matrix,
    ) -> Result<(Vec<Factor>, usize), ExecuteError> {
        let unit = self.unit(issue)?;
        let is_gated = match &unit.layers[usize::from(layer)].kind {
            LayerKind::Mlp(mlp) => mlp.gated,
            _ => false,
        };
        let mut factors = Vec::new();
        let mut width = 0;
        for &role in roles(matrix) {
            let (rows, depth) = match (matrix, unit.tensors.tensor(layer, role)) {
                (Matrix::Vocabulary { .. }, None) => {
                    let lender = self.lender(issue, unit)?;
                    let depth = self.width(issue, layer)?;
                    (lender.tensors.length(lender.tensors.table()) / depth, depth)
                }
                (_, tensor) => {
                    let tensor = self.need(issue, role, tensor)?;
                    (tensor.rows, tensor.columns)
                }
            };
            let rows = match matrix {
                Matrix::Gate => 0..rows / 2,
                Matrix::Up if is_gated => rows / 2..rows,
                _ => 0..rows,
            };
            let bias = match role {
                "query" => Some("query bias"),
                "key" => Some("key bias"),
                "value" => Some("value bias"),
                "up" => Some("up bias"),
                "vocabulary" => Some("vocabulary bias"),
                _ => None,
            };
            let columns = width..width + rows.len();
            width = columns.end;
            factors.push(Factor { role, bias, rows, depth, columns });
        }
        Ok((factors, width))
    }

    pub(in crate::execute) fn linear(&mut self, issue: &Issue, layer: u16, matrix: Matrix) -> Done {
        if is_expert(matrix) {
            return self.expert_product(issue, Kernel::Linear(matrix), layer);
        }
        let pool = self.pool;
        let scratch = self.workspace();
        let x = self.read::<T>(issue.reads[0]);
        if matrix == Matrix::Router {
            let weight = self.weight(issue, layer, "router")?;
            let depth = self.width(issue, layer)?;
            let x = View::new(&x[self.routed(issue, layer)?], depth);
            let weight = View::new(weight, depth);
            let logits = self.write::<T::Wide>(issue.writes[0]);
            let y = MatrixMut::new(&mut *logits, weight.rows);
            product(pool, (x, weight.transposed()), y, Into::Set, None, scratch);
            routing::assign(&self.router_of(issue, layer)?, logits, pool);
            return Ok(());
        }
        let (factors, width) = self.factors(issue, layer, matrix)?;
        for factor in factors {
            let weight = self.weight_part(issue, layer, &factor)?;
            let bias = match factor.bias {
                Some(bias) => self.parameter(issue, layer, bias)?,
                None => None,
            };
            let bias = bias.map(|bias| &bias[factor.rows.clone()]);
            let x = View::new(&x[chunk_elements(matrix, x.len(), factor.depth)], factor.depth);
            let y = self.write::<T>(issue.writes[0]);
            let y = MatrixMut::window(y, width, factor.columns.start, factor.columns.len());
            linear::forward(pool, x, weight, bias, (y, Into::Set), scratch);
        }
        Ok(())
    }

    pub(in crate::execute) fn input_gradient(
        &mut self,
        issue: &Issue,
        layer: u16,
        matrix: Matrix,
        into: Into,
    ) -> Done {
        if is_expert(matrix) {
            return self.expert_product(issue, Kernel::InputGradient(matrix, into), layer);
        }
        let pool = self.pool;
        let scratch = self.workspace();
        if matrix == Matrix::Router {
            let weight = self.weight(issue, layer, "router")?;
            let depth = self.width(issue, layer)?;
            let dy = View::new(self.read::<T::Wide>(issue.reads[0]), weight.len() / depth);
            let dx = self.write::<T>(issue.writes[0]);
            let dx = MatrixMut::new(&mut dx[self.routed(issue, layer)?], depth);
            product(pool, (dy, View::new(weight, depth)), dx, into, None, scratch);
            return Ok(());
        }
        let dy = self.read::<T>(issue.reads[0]);
        let (factors, width) = self.factors(issue, layer, matrix)?;
        for (turn, factor) in factors.into_iter().enumerate() {
            let weight = self.weight_part(issue, layer, &factor)?;
            let dy = View::window(dy, width, factor.columns.start, factor.columns.len());
            let dx = self.write::<T>(issue.writes[0]);
            let part = chunk_elements(matrix, dx.len(), factor.depth);
            let dx = MatrixMut::new(&mut dx[part], factor.depth);
            let write = if turn == 0 { into } else { Into::Add };
            linear::input_gradient(pool, dy, weight, (dx, write), scratch);
        }
        Ok(())
    }

    pub(in crate::execute) fn weight_gradient(&mut self, issue: &Issue, layer: u16, matrix: Matrix) -> Done {
        if is_expert(matrix) {
            return self.expert_product(issue, Kernel::WeightGradient(matrix), layer);
        }
        let pool = self.pool;
        let scratch = self.workspace();
        let x = self.read::<T>(issue.reads[0]);
        if matrix == Matrix::Router {
            let depth = self.width(issue, layer)?;
            let dy = self.read::<T::Wide>(issue.reads[1]);
            let x = View::new(&x[self.routed(issue, layer)?], depth);
            let (gradient, write) = self.needed_gradient(issue, layer, "router")?;
            let gradient = MatrixMut::new(gradient, depth);
            let dy = View::new(dy, gradient.rows).transposed();
            product(pool, (dy, x), gradient, write, None, scratch);
            return Ok(());
        }
        let dy = self.read::<T>(issue.reads[1]);
        let (factors, width) = self.factors(issue, layer, matrix)?;
        for Factor { role, bias, rows, depth, columns } in factors {
            let dy = View::window(dy, width, columns.start, columns.len());
            let target = if matches!(matrix, Matrix::Vocabulary { .. }) {
                self.vocabulary_gradient(issue, layer)?
            } else {
                let target = self.gradient_part(issue, layer, role, &rows, depth)?;
                Some(self.need(issue, role, target)?)
            };
            if let Some(target) = target {
                let x = View::new(&x[chunk_elements(matrix, x.len(), depth)], depth);
                linear::weight_gradient(pool, dy, x, target, scratch);
            }
            if let Some(bias) = bias
                && let Some(target) = self.gradient_part(issue, layer, bias, &rows, 1)?
            {
                linear::bias_gradient(pool, dy, target);
            }
        }
        // A bias behind a sum over tensor ranks takes the gradient of the sum.
        let summed = match matrix {
            Matrix::AttentionOutput => Some("output bias"),
            Matrix::Down => Some("down bias"),
            _ => None,
        };
        if let Some(bias) = summed
            && let Some((gradient, write)) = self.gradient(issue, layer, bias)?
        {
            let branch = self.read::<T>(issue.reads.get(2).copied().unwrap_or(issue.reads[1]));
            linear::bias_gradient(pool, View::new(branch, gradient.len()), (gradient, write));
        }
        Ok(())
    }

    /// Rows `rows` (of `depth` elements) of the gradient of a role: a gated matrix has two halves. None where the layer
    /// has no such weight, or a frozen one.
    fn gradient_part(
        &mut self,
        issue: &Issue,
        layer: u16,
        role: &str,
        rows: &Range<usize>,
        depth: usize,
    ) -> Result<Option<Target<'r, G>>, ExecuteError> {
        let gradient = self.gradient(issue, layer, role)?;
        Ok(gradient.map(|(gradient, write)| (&mut gradient[rows.start * depth..rows.end * depth], write)))
    }

    /// The rows of a tensor that `factor` is.
    fn weight_part(&self, issue: &Issue, layer: u16, factor: &Factor) -> Result<&'r [T], ExecuteError> {
        let Factor { role, rows, depth, .. } = factor;
        let whole = match *role {
            "vocabulary" => self.vocabulary(issue, layer)?,
            role => self.weight(issue, layer, role)?,
        };
        Ok(&whole[rows.start * depth..rows.end * depth])
    }

    /// The unit of the embedding whose table the head of `unit` has too.
    fn lender(&self, issue: &Issue, unit: &Unit) -> Result<&'r Unit, ExecuteError> {
        Ok(&self.rank.units[self.need(issue, "the embedding of a tied head", unit.borrows_from)?])
    }

    /// The head's matrix: its own, or the table of the embedding.
    fn vocabulary(&self, issue: &Issue, layer: u16) -> Result<&'r [T], ExecuteError> {
        if let Some(own) = self.parameter(issue, layer, "vocabulary")? {
            return Ok(own);
        }
        let unit = self.unit(issue)?;
        let lender = self.lender(issue, unit)?;
        let table = lender.tensors.table();
        let length = lender.tensors.length(table);
        let own = unit.tensors.total();
        if let Some(region) = issue.parameters
            && region.bytes > own * size_of::<T>()
        {
            return Ok(self.read::<T>(region.elements(own, length, size_of::<T>())));
        }
        let start = lender.tensors.whole_start(table);
        let place = [Holds::GatheredParameters, Holds::Parameters];
        let state = place.into_iter().find_map(|holds| self.rank.state(holds, Some(lender.index)));
        let state = self.need(issue, "the table of a tied head", state)?;
        Ok(self.read::<T>(state.device.elements(start, length, size_of::<T>())))
    }

    /// The gradient of the head's matrix; none where that is frozen.
    fn vocabulary_gradient(
        &mut self,
        issue: &Issue,
        layer: u16,
    ) -> Result<Option<Target<'r, G>>, ExecuteError> {
        let unit = self.unit(issue)?;
        if unit.tensors.tensor(layer, "vocabulary").is_some() {
            return self.gradient(issue, layer, "vocabulary");
        }
        let lender = self.lender(issue, unit)?;
        if !lender.tensors.table().is_trained() {
            return Ok(None);
        }
        let length = lender.tensors.length(Section::Table);
        // A buffer of the pass has room for it behind the unit's own.
        let own = unit.tensors.trained() * size_of::<G>();
        let is_kept = issue.gradient.is_none_or(|gradient| gradient.bytes <= own);
        if let Some(state) = self.rank.state(Holds::Gradients, Some(lender.index)).filter(|_| is_kept) {
            let start = lender.tensors.gradient_start(Section::Table);
            let region = state.device.elements(start, length, size_of::<G>());
            let write = if self.replaces(issue, lender, Section::Table) { Into::Set } else { Into::Add };
            return Ok(Some((self.write::<G>(region), write)));
        }
        let region = self.need(issue, "the buffer of its gradient", issue.gradient)?;
        let region = region.elements(unit.tensors.trained(), length, size_of::<G>());
        Ok(Some((self.write::<G>(region), Into::Add)))
    }

    /// Scratch of the compute stream's kernels.
    pub(in crate::execute) fn workspace(&self) -> &'r mut [T::Wide] {
        self.write::<T::Wide>(self.rank.region(Holds::Workspace))
    }
}

/// Rows of chunk `chunk` of `chunks`.
pub(super) const fn chunk_rows(rows: usize, chunk: u16, chunks: u16) -> Range<usize> {
    let (chunk, chunks) = (chunk as usize, chunks as usize);
    chunk * rows / chunks..(chunk + 1) * rows / chunks
}

/// The elements, in rows of `depth`, of the stream of `elements` elements that a product with `matrix` is over: a
/// chunk of the rows for the vocabulary, else all.
const fn chunk_elements(matrix: Matrix, elements: usize, depth: usize) -> Range<usize> {
    let Matrix::Vocabulary { chunk, chunks } = matrix else { return 0..elements };
    let rows = chunk_rows(elements / depth, chunk, chunks);
    rows.start * depth..rows.end * depth
}

const fn is_expert(matrix: Matrix) -> bool {
    matches!(matrix, Matrix::ExpertGate | Matrix::ExpertUp | Matrix::ExpertDown)
}
