//! Products with the matrices of layers, forward and backward.

use std::ops::Range;

use super::joining::joined;
use super::{Binder, Done};
use crate::execute::call::{Call, Columns, Factor, Gemm, Target, View};
use crate::execute::error::ExecuteError;
use crate::execute::ranks::layout::Section;
use crate::execute::ranks::placement::Issue;
use crate::execute::ranks::unit::Unit;
use crate::lower::kernel::{Into, Kernel, Matrix};
use crate::model::layer::LayerKind;
use crate::model::roles::Role;
use crate::program::instruction::Holds;

/// One product among those of a matrix: which rows, of `depth` elements, of which tensor, which columns of the wide
/// operand.
struct Share {
    role: Role,
    bias: Option<Role>,
    rows: Range<usize>,
    depth: usize,
    columns: Range<usize>,
}

impl<'a> Binder<'a> {
    /// The products of `matrix`, whose outputs lie side by side in rows of the returned width.
    fn shares(&self, issue: &Issue, layer: u16, matrix: Matrix) -> Result<(Vec<Share>, usize), ExecuteError> {
        let unit = self.unit(issue)?;
        let is_gated = match &unit.layers[usize::from(layer)].kind {
            LayerKind::Mlp(mlp) => mlp.gated,
            _ => false,
        };
        let mut shares = Vec::new();
        let mut width = 0;
        for &role in roles(matrix) {
            let (rows, depth) = match (matrix, unit.tensors.tensor(layer, role)) {
                (Matrix::Vocabulary { .. }, None) => {
                    let lender = self.lender(issue, unit)?;
                    let depth = self.width(issue, layer)?;
                    (lender.tensors.length(lender.tensors.table()) / depth, depth)
                }
                (_, tensor) => {
                    let tensor = self.need(issue, role.name(), tensor)?;
                    (tensor.rows, tensor.columns)
                }
            };
            let rows = match matrix {
                Matrix::Gate => 0..rows / 2,
                Matrix::Up if is_gated => rows / 2..rows,
                _ => 0..rows,
            };
            let columns = width..width + rows.len();
            width = columns.end;
            shares.push(Share { role, bias: bias_of(role), rows, depth, columns });
        }
        Ok((shares, width))
    }

    pub(super) fn linear(&mut self, issue: &Issue, layer: u16, matrix: Matrix) -> Done {
        if is_expert(matrix) {
            return self.expert_product(issue, Kernel::Linear(matrix), layer);
        }
        let x = self.activations(self.read(issue, 0)?);
        if matrix == Matrix::Router {
            let weight = self.weight(issue, layer, Role::Router)?;
            let depth = self.width(issue, layer)?;
            let x = self.routed(issue, layer, x)?;
            let logits = self.wide(self.written(issue, 0)?);
            let columns = weight.len() / depth;
            self.gemm(
                (plain(x, depth), transposed(plain(weight, depth))),
                None,
                (Columns::all(logits, columns), Into::Set),
            );
            let router = self.router_of(issue, layer)?;
            self.push(Call::Route { router, logits });
            return Ok(());
        }
        let (shares, width) = self.shares(issue, layer, matrix)?;
        let y = self.activations(self.written(issue, 0)?);
        for share in shares {
            let weight = self.weight_part(issue, layer, &share)?;
            let bias = match share.bias {
                Some(bias) => self.parameter(issue, layer, bias)?,
                None => None,
            };
            let bias = bias.map(|bias| self.part(issue, bias, share.rows.clone())).transpose()?;
            let x = self.part(issue, x, chunk_elements(matrix, x.len(), share.depth))?;
            let output = columns(y, width, &share.columns);
            self.gemm(
                (plain(x, share.depth), transposed(plain(weight, share.depth))),
                bias,
                (output, Into::Set),
            );
        }
        Ok(())
    }

    pub(super) fn input_gradient(&mut self, issue: &Issue, layer: u16, matrix: Matrix, into: Into) -> Done {
        if is_expert(matrix) {
            return self.expert_product(issue, Kernel::InputGradient(matrix, into), layer);
        }
        let dx = self.activations(self.written(issue, 0)?);
        if matrix == Matrix::Router {
            let weight = self.weight(issue, layer, Role::Router)?;
            let depth = self.width(issue, layer)?;
            let dy = plain(self.wide(self.read(issue, 0)?), weight.len() / depth);
            let dx = Columns::all(self.routed(issue, layer, dx)?, depth);
            self.gemm((dy, plain(weight, depth)), None, (dx, into));
            return Ok(());
        }
        let dy = self.activations(self.read(issue, 0)?);
        let (shares, width) = self.shares(issue, layer, matrix)?;
        for (turn, share) in shares.into_iter().enumerate() {
            let weight = self.weight_part(issue, layer, &share)?;
            let dy = Factor { matrix: columns(dy, width, &share.columns), transposed: false };
            let dx = self.part(issue, dx, chunk_elements(matrix, dx.len(), share.depth))?;
            let write = if turn == 0 { into } else { Into::Add };
            self.gemm((dy, plain(weight, share.depth)), None, (Columns::all(dx, share.depth), write));
        }
        Ok(())
    }

    pub(super) fn weight_gradient(&mut self, issue: &Issue, layer: u16, matrix: Matrix) -> Done {
        if is_expert(matrix) {
            return self.expert_product(issue, Kernel::WeightGradient(matrix), layer);
        }
        let x = self.activations(self.read(issue, 0)?);
        if matrix == Matrix::Router {
            let depth = self.width(issue, layer)?;
            let x = plain(self.routed(issue, layer, x)?, depth);
            let Target { view, write } = self.needed_gradient(issue, layer, Role::Router)?;
            let dy = plain(self.wide(self.read(issue, 1)?), view.len() / depth);
            self.gemm((transposed(dy), x), None, (Columns::all(view, depth), write));
            return Ok(());
        }
        let dy = self.activations(self.read(issue, 1)?);
        let (shares, width) = self.shares(issue, layer, matrix)?;
        let mut biases = Vec::new();
        for Share { role, bias, rows, depth, columns: own } in shares {
            let dy = columns(dy, width, &own);
            let target = if matches!(matrix, Matrix::Vocabulary { .. }) {
                self.vocabulary_gradient(issue, layer)?
            } else {
                let target = self.gradient_part(issue, layer, role, &rows, depth)?;
                Some(self.need(issue, role.name(), target)?)
            };
            if let Some(Target { view, write }) = target {
                let x = self.part(issue, x, chunk_elements(matrix, x.len(), depth))?;
                let dy = Factor { matrix: dy, transposed: true };
                self.gemm((dy, plain(x, depth)), None, (Columns::all(view, depth), write));
            }
            if let Some(bias) = bias
                && let Some(bias) = self.gradient_part(issue, layer, bias, &rows, 1)?
            {
                biases.push(Call::BiasGradient { output_gradient: dy, bias });
            }
        }
        self.calls.extend(biases);
        // A bias behind a sum over tensor ranks takes the gradient of the sum.
        let summed = match matrix {
            Matrix::AttentionOutput => Some(Role::OutputBias),
            Matrix::Down => Some(Role::DownBias),
            _ => None,
        };
        if let Some(bias) = summed
            && let Some(bias) = self.gradient(issue, layer, bias)?
        {
            let branch = self.activations(issue.reads.get(2).copied().unwrap_or(dy.region));
            let output_gradient = Columns::all(branch, bias.view.len());
            self.push(Call::BiasGradient { output_gradient, bias });
        }
        Ok(())
    }

    /// output (=|+=) a · b (+ bias), in one product with the call before where that can be.
    pub(super) fn gemm(
        &mut self,
        (a, b): (Factor, Factor),
        bias: Option<View>,
        (output, write): (Columns, Into),
    ) {
        let gemm = Gemm { a, b, bias, output, write, scratch: self.workspace() };
        if let Some(Call::Gemm(before)) = self.calls[self.first..].last_mut()
            && let Some(joined) = joined(before, &gemm)
        {
            **before = joined;
            return;
        }
        self.push(Call::Gemm(Box::new(gemm)));
    }

    /// Rows `rows` (of `depth` elements) of the gradient of a role: a gated matrix has two halves. None where the layer
    /// has no such weight, or a frozen one.
    fn gradient_part(
        &self,
        issue: &Issue,
        layer: u16,
        role: Role,
        rows: &Range<usize>,
        depth: usize,
    ) -> Result<Option<Target>, ExecuteError> {
        let Some(Target { view, write }) = self.gradient(issue, layer, role)? else { return Ok(None) };
        let view = self.part(issue, view, rows.start * depth..rows.end * depth)?;
        Ok(Some(Target { view, write }))
    }

    /// The rows of a tensor that `share` is.
    fn weight_part(&self, issue: &Issue, layer: u16, share: &Share) -> Result<View, ExecuteError> {
        let Share { role, rows, depth, .. } = share;
        let whole = match role {
            Role::Vocabulary => self.vocabulary(issue, layer)?,
            role => self.weight(issue, layer, *role)?,
        };
        self.part(issue, whole, rows.start * depth..rows.end * depth)
    }

    /// The unit of the embedding whose table the head of `unit` has too.
    fn lender(&self, issue: &Issue, unit: &Unit) -> Result<&'a Unit, ExecuteError> {
        Ok(&self.rank.units[self.need(issue, "the embedding of a tied head", unit.borrows_from)?])
    }

    /// The head's matrix: its own, or the table of the embedding.
    fn vocabulary(&self, issue: &Issue, layer: u16) -> Result<View, ExecuteError> {
        if let Some(own) = self.parameter(issue, layer, Role::Vocabulary)? {
            return Ok(own);
        }
        let unit = self.unit(issue)?;
        let lender = self.lender(issue, unit)?;
        let table = lender.tensors.table();
        let length = lender.tensors.length(table);
        let own = unit.tensors.total();
        if let Some(region) = issue.parameters
            && region.bytes > own * self.types.compute.size()
        {
            return self.part(issue, self.activations(region), own..own + length);
        }
        let start = lender.tensors.whole_start(table);
        let place = [Holds::GatheredParameters, Holds::Parameters];
        let state = place.into_iter().find_map(|holds| self.rank.state(holds, Some(lender.index)));
        let state = self.need(issue, "the table of a tied head", state)?;
        self.part(issue, self.activations(state.device), start..start + length)
    }

    /// The gradient of the head's matrix; none where that is frozen.
    fn vocabulary_gradient(&self, issue: &Issue, layer: u16) -> Result<Option<Target>, ExecuteError> {
        let unit = self.unit(issue)?;
        if unit.tensors.tensor(layer, Role::Vocabulary).is_some() {
            return self.gradient(issue, layer, Role::Vocabulary);
        }
        let lender = self.lender(issue, unit)?;
        if !lender.tensors.table().is_trained() {
            return Ok(None);
        }
        let length = lender.tensors.length(Section::Table);
        // A buffer of the pass has room for it behind the unit's own.
        let own = unit.tensors.trained();
        let is_kept =
            issue.gradient.is_none_or(|gradient| gradient.bytes <= own * self.types.gradient.size());
        if let Some(state) = self.rank.state(Holds::Gradients, Some(lender.index)).filter(|_| is_kept) {
            let start = lender.tensors.gradient_start(Section::Table);
            let view = self.part(issue, self.gradients(state.device), start..start + length)?;
            let write = if self.replaces(issue, lender, Section::Table) { Into::Set } else { Into::Add };
            return Ok(Some(Target { view, write }));
        }
        let whole = self.whole_gradient(issue)?;
        let view = self.part(issue, whole, own..own + length)?;
        Ok(Some(Target { view, write: Into::Add }))
    }
}

/// All of `view`, in rows of `columns`, as an operand.
pub(super) const fn plain(view: View, columns: usize) -> Factor {
    Factor { matrix: Columns::all(view, columns), transposed: false }
}

/// Rows taken as columns.
pub(super) const fn transposed(factor: Factor) -> Factor {
    Factor { transposed: !factor.transposed, ..factor }
}

const fn columns(view: View, stride: usize, own: &Range<usize>) -> Columns {
    Columns { view, stride, first: own.start, columns: own.end - own.start }
}

/// Which tensors a matrix is made of.
const fn roles(matrix: Matrix) -> &'static [Role] {
    match matrix {
        Matrix::QueryKeyValue => &[Role::Query, Role::Key, Role::Value],
        Matrix::AttentionOutput => &[Role::Output],
        Matrix::Gate | Matrix::Up => &[Role::Up],
        Matrix::Down => &[Role::Down],
        Matrix::Router => &[Role::Router],
        Matrix::ExpertGate | Matrix::ExpertUp => &[Role::ExpertUp],
        Matrix::ExpertDown => &[Role::ExpertDown],
        Matrix::SharedUp => &[Role::SharedUp],
        Matrix::SharedDown => &[Role::SharedDown],
        Matrix::Vocabulary { .. } => &[Role::Vocabulary],
    }
}

/// The bias that is added in the same product.
const fn bias_of(role: Role) -> Option<Role> {
    match role {
        Role::Query => Some(Role::QueryBias),
        Role::Key => Some(Role::KeyBias),
        Role::Value => Some(Role::ValueBias),
        Role::Up => Some(Role::UpBias),
        Role::Vocabulary => Some(Role::VocabularyBias),
        _ => None,
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
