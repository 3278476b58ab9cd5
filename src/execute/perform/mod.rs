//! Instructions done: each kernel of a program called on the memory that its instruction names.

mod attention;
mod experts;
mod linear;
mod loss;
mod optimizer;
mod reductions;
mod weighing;

use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::activation;
use crate::execute::kernels::dropout::{Dropout, Place as RowPlace};
use crate::execute::kernels::rotary::Turn;
use crate::execute::kernels::{embedding, norm, quantise, residual};
use crate::execute::placement::Issue;
use crate::execute::pool::Pool;
use crate::execute::worker::Worker;
use crate::lower::kernel::{Branch, Into, Kernel, Matrix, Place};
use crate::model::layer::{self, Activation, LayerKind, NormKind};
use crate::profile::choices::Compression;
use crate::program::instruction::Holds;
use crate::program::scalars::Scalar;

type Done = Result<(), ExecuteError>;
/// Where a kernel adds to a gradient, or what it replaces.
type Target<'r, G> = (&'r mut [G], Into);
/// Of a norm, where it has them.
type WeightAndBias<'r, T> = (Option<&'r [T]>, Option<&'r [T]>);

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// A kernel of a layer.
    pub(in crate::execute) fn kernel(
        &mut self,
        issue: &Issue,
        kernel: Kernel,
        layer: u16,
        adds_gradient: bool,
    ) -> Done {
        let pool = self.pool;
        match kernel {
            Kernel::Embed => return self.embed(issue, layer),
            Kernel::AddPositions => return self.add_positions(issue, layer),
            Kernel::EmbedGradient => return self.embed_gradient(issue, layer),
            Kernel::Norm(place) => return self.norm(issue, layer, place),
            Kernel::NormGradient(place, into) => {
                if adds_gradient {
                    self.norm_weight(issue, layer, place)?;
                }
                return self.norm_gradient(issue, layer, place, into);
            }
            Kernel::NormWeight(place) => return self.norm_weight(issue, layer, place),
            Kernel::Linear(matrix) => return self.linear(issue, layer, matrix),
            Kernel::InputGradient(matrix, into) => return self.input_gradient(issue, layer, matrix, into),
            Kernel::WeightGradient(matrix) => return self.weight_gradient(issue, layer, matrix),
            Kernel::Rotary => return self.rotary(issue, layer, Turn::Forward),
            Kernel::RotaryGradient => return self.rotary(issue, layer, Turn::Backward),
            Kernel::PackKeysValues => return self.pack_keys_values(issue, layer, true),
            Kernel::UnpackKeysValues => return self.pack_keys_values(issue, layer, false),
            Kernel::Attention { ring } => return self.attention(issue, layer, ring),
            Kernel::AttentionGradient { ring } => return self.attention_gradient(issue, layer, ring),
            Kernel::Activation => return self.activation(issue, layer),
            Kernel::ActivationGradient => return self.activation_gradient(issue, layer),
            Kernel::Residual(branch) => return self.residual(issue, layer, branch),
            Kernel::BranchGradient(_) | Kernel::Dropout | Kernel::DropoutGradient => {
                let (width, to) = (self.width(issue, layer)?, self.write::<T>(issue.writes[0]));
                if matches!(kernel, Kernel::BranchGradient(_)) {
                    residual::copy(pool, self.read::<T>(issue.reads[0]), to);
                }
                if let Some(dropout) = self.dropout(issue, layer, width)? {
                    residual::drop(pool, width, dropout, to);
                }
            }
            Kernel::Permute
            | Kernel::Combine
            | Kernel::CombineGradient
            | Kernel::PermuteGradient
            | Kernel::ExpertActivation
            | Kernel::ExpertActivationGradient => return self.expert_kernel(issue, kernel, layer),
            Kernel::CrossEntropy { chunk, chunks } => {
                return self.cross_entropy(issue, layer, (chunk, chunks));
            }
            Kernel::Loss => return self.loss(issue),
            Kernel::CrossEntropyGradient { chunk, chunks } => {
                return self.cross_entropy_gradient(issue, layer, (chunk, chunks));
            }
            Kernel::SquaredError => return self.squared_error(issue),
            Kernel::SquaredErrorGradient => return self.squared_error_gradient(issue),
            Kernel::Add => {
                residual::add(pool, self.read::<T>(issue.reads[0]), self.write::<T>(issue.writes[0]));
            }
            Kernel::Copy => {
                residual::copy(pool, self.read::<T>(issue.reads[0]), self.write::<T>(issue.writes[0]));
            }
            Kernel::Zero => residual::zero(pool, self.write::<T>(issue.writes[0])),
            Kernel::Quantise => {
                let bits = self.bits();
                let to = self.write::<u8>(issue.writes[0]);
                quantise::quantise(pool, bits, self.read::<T>(issue.reads[0]), to);
            }
            Kernel::Dequantise => {
                let bits = self.bits();
                let from = self.read::<u8>(issue.reads[0]);
                quantise::dequantise(pool, bits, from, self.write::<T>(issue.writes[0]));
            }
            Kernel::Planned
            | Kernel::Collective
            | Kernel::GatherStatistics
            | Kernel::ToHeads { .. }
            | Kernel::ToTokens { .. } => {
                return Err(ExecuteError::Unsupported(format!("{kernel:?}")));
            }
        }
        Ok(())
    }

    fn bits(&self) -> quantise::Bits {
        match self.run.strategy.compression {
            Compression::FourBit => quantise::Bits::Four,
            _ => quantise::Bits::Eight,
        }
    }

    fn layer(&self, issue: &Issue, layer: u16) -> Result<&'r LayerKind, ExecuteError> {
        Ok(&self.unit(issue)?.layers[usize::from(layer)].kind)
    }

    /// Elements of a row of the residual stream.
    fn width(&self, issue: &Issue, number: u16) -> Result<usize, ExecuteError> {
        let width = match self.layer(issue, number)? {
            LayerKind::Embedding(layer) => layer.hidden,
            LayerKind::Attention(layer) => layer.hidden,
            LayerKind::Mlp(layer) => layer.hidden,
            LayerKind::Moe(layer) => layer.hidden,
            LayerKind::Head(layer) => layer.hidden,
            LayerKind::Loss(_) => return Err(self.missing(issue, "a layer of the residual stream")),
        };
        Ok(width as usize)
    }

    /// The elements of `role` of layer `layer` among the whole parameters of the instruction's unit; none where the
    /// layer has no such weight.
    fn parameter(&self, issue: &Issue, layer: u16, role: &str) -> Result<Option<&'r [T]>, ExecuteError> {
        let unit = self.unit(issue)?;
        let Some(tensor) = unit.tensors.tensor(layer, role) else { return Ok(None) };
        let start = unit.tensors.whole_start(tensor.section) + tensor.start;
        let whole = self.need(issue, "the buffer of whole parameters", issue.parameters)?;
        Ok(Some(self.read::<T>(whole.elements(start, tensor.elements(), size_of::<T>()))))
    }

    /// As [`Self::parameter`], of a weight that the kernel cannot do without.
    fn weight(&self, issue: &Issue, layer: u16, role: &str) -> Result<&'r [T], ExecuteError> {
        self.need(issue, role, self.parameter(issue, layer, role)?)
    }

    /// As [`Self::gradient`], of a weight that the kernel cannot do without.
    fn needed_gradient(
        &mut self,
        issue: &Issue,
        layer: u16,
        role: &str,
    ) -> Result<Target<'r, G>, ExecuteError> {
        let gradient = self.gradient(issue, layer, role)?;
        self.need(issue, role, gradient)
    }

    /// The gradient of `role` of layer `layer`, and whether it replaces what is there; none where the layer has no
    /// such weight, or a frozen one.
    fn gradient(
        &mut self,
        issue: &Issue,
        layer: u16,
        role: &str,
    ) -> Result<Option<Target<'r, G>>, ExecuteError> {
        let unit = self.unit(issue)?;
        let tensor = unit.tensors.tensor(layer, role).filter(|tensor| tensor.section.is_trained());
        let Some(tensor) = tensor else { return Ok(None) };
        let start = unit.tensors.gradient_start(tensor.section) + tensor.start;
        let whole = self.need(issue, "the buffer of its gradient", issue.gradient)?;
        let region = whole.elements(start, tensor.elements(), size_of::<G>());
        // A buffer of the pass starts at zero; what is kept over the step starts anew with its first gradient.
        let kept = self.rank.state(Holds::Gradients, Some(unit.index)).map(|state| state.device);
        let is_kept = kept.is_some() && kept == issue.gradient;
        let replaces = is_kept && self.replaces(issue, unit, tensor.section);
        Ok(Some((self.write::<G>(region), if replaces { Into::Set } else { Into::Add })))
    }

    fn norm_of(
        &self,
        issue: &Issue,
        number: u16,
        place: Place,
    ) -> Result<(&'r layer::Norm, &'static str), ExecuteError> {
        let (norm, role) = match (self.layer(issue, number)?, place) {
            (LayerKind::Embedding(layer), _) => (layer.norm.as_ref(), "norm"),
            (LayerKind::Head(layer), _) => (layer.norm.as_ref(), "norm"),
            (LayerKind::Moe(layer), _) => (layer.norm.as_ref(), "norm"),
            (LayerKind::Attention(layer), Place::Input) => (layer.norm.as_ref(), "norm"),
            (LayerKind::Attention(layer), Place::Output) => (layer.output_norm.as_ref(), "output norm"),
            (LayerKind::Attention(layer), Place::Residual) => (layer.residual_norm.as_ref(), "residual norm"),
            (LayerKind::Mlp(layer), Place::Input) => (layer.norm.as_ref(), "norm"),
            (LayerKind::Mlp(layer), Place::Output) => (layer.output_norm.as_ref(), "output norm"),
            (LayerKind::Mlp(layer), Place::Residual) => (layer.residual_norm.as_ref(), "residual norm"),
            (LayerKind::Loss(_), _) => (None, "norm"),
        };
        Ok((self.need(issue, role, norm)?, role))
    }

    /// Weight and bias of a norm, where it has them.
    fn norm_parameters(
        &self,
        issue: &Issue,
        layer: u16,
        (norm, role): (&layer::Norm, &str),
    ) -> Result<WeightAndBias<'r, T>, ExecuteError> {
        Ok(match norm.kind {
            NormKind::Plain => (None, None),
            NormKind::LayerWithoutBias | NormKind::Rms => (Some(self.weight(issue, layer, role)?), None),
            NormKind::Layer => {
                let (weight, bias) = self.weight(issue, layer, role)?.split_at(norm.width as usize);
                (Some(weight), Some(bias))
            }
        })
    }

    fn norm_kernel(&self, norm: &layer::Norm) -> norm::Norm {
        norm::Norm {
            kind: norm.kind,
            width: norm.width as usize,
            epsilon: self.run.model.constants.norm_epsilon,
        }
    }

    fn norm(&mut self, issue: &Issue, layer: u16, place: Place) -> Done {
        let (norm, role) = self.norm_of(issue, layer, place)?;
        let weights = self.norm_parameters(issue, layer, (norm, role))?;
        let statistics = issue.writes.get(1).map(|region| self.write::<T::Wide>(*region));
        let (x, y) = (self.read::<T>(issue.reads[0]), self.write::<T>(issue.writes[0]));
        norm::forward(self.pool, self.norm_kernel(norm), x, weights, y, statistics);
        Ok(())
    }

    fn norm_gradient(&mut self, issue: &Issue, layer: u16, place: Place, into: Into) -> Done {
        let (norm, role) = self.norm_of(issue, layer, place)?;
        let (weight, _) = self.norm_parameters(issue, layer, (norm, role))?;
        let statistics = self.statistics(issue, place);
        let x = self.read::<T>(issue.reads[1]);
        let dx = self.write::<T>(issue.writes[0]);
        let gradient = if issue.reads[0] == issue.writes[0] {
            norm::InputGradient::InPlace(dx)
        } else {
            norm::InputGradient::Apart { dy: self.read::<T>(issue.reads[0]), dx, write: into }
        };
        norm::backward(self.pool, self.norm_kernel(norm), x, weight, statistics, gradient);
        Ok(())
    }

    fn norm_weight(&mut self, issue: &Issue, layer: u16, place: Place) -> Done {
        let (norm, role) = self.norm_of(issue, layer, place)?;
        if norm.kind == NormKind::Plain {
            return Ok(());
        }
        let statistics = self.statistics(issue, place);
        let (dy, x) = (self.read::<T>(issue.reads[0]), self.read::<T>(issue.reads[1]));
        let kernel = self.norm_kernel(norm);
        let (gradient, write) = self.needed_gradient(issue, layer, role)?;
        if write == Into::Set {
            gradient.fill(G::default());
        }
        let (weight, bias) = gradient.split_at_mut(kernel.width);
        let bias = (norm.kind == NormKind::Layer).then_some(bias);
        norm::weight_gradient(self.pool, kernel, x, statistics, dy, (weight, bias));
        Ok(())
    }

    /// Norms on the way out keep no statistics.
    fn statistics(&self, issue: &Issue, place: Place) -> Option<&'r [T::Wide]> {
        let region = issue.reads.get(2).filter(|_| place != Place::Output)?;
        Some(self.read::<T::Wide>(*region))
    }

    fn activation(&mut self, issue: &Issue, number: u16) -> Done {
        let (kind, gated) = self.activation_of(issue, number)?;
        let to = self.write::<T>(issue.writes[0]);
        match (gated, issue.reads.len()) {
            (false, _) => activation::forward(self.pool, kind, self.read::<T>(issue.reads[0]), to),
            // Gate and up of shared experts are columns of one matrix.
            (true, 1) => {
                let (both, width) = (self.read::<T>(issue.reads[0]), self.shared_width(issue)?);
                for (to, both) in to.chunks_exact_mut(width).zip(both.chunks_exact(2 * width)) {
                    activation::gated_forward(Pool::Serial, kind, both.split_at(width), to);
                }
            }
            (true, _) => {
                let parts = (self.read::<T>(issue.reads[0]), self.read::<T>(issue.reads[1]));
                activation::gated_forward(self.pool, kind, parts, to);
            }
        }
        Ok(())
    }

    fn activation_gradient(&mut self, issue: &Issue, number: u16) -> Done {
        let (kind, gated) = self.activation_of(issue, number)?;
        let dy = self.read::<T>(issue.reads[0]);
        let pool = self.pool;
        let is_shared = matches!(self.layer(issue, number)?, LayerKind::Moe(_));
        let up = self.read::<T>(issue.reads[1]);
        let to = self.write::<T>(issue.writes[0]);
        if is_shared && gated {
            let width = self.shared_width(issue)?;
            let rows = dy.chunks_exact(width).zip(up.chunks_exact(2 * width));
            for (to, (dy, both)) in to.chunks_exact_mut(2 * width).zip(rows) {
                let (gate, up) = to.split_at_mut(width);
                up.copy_from_slice(dy);
                let serial = Pool::Serial;
                activation::gated_backward(serial, kind, both.split_at(width), (gate, up));
            }
            return Ok(());
        }
        residual::copy(pool, dy, to);
        if gated {
            let gate = self.read::<T>(issue.reads[2]);
            let gate_gradient = self.write::<T>(issue.writes[1]);
            activation::gated_backward(pool, kind, (gate, up), (gate_gradient, to));
        } else {
            activation::backward(pool, kind, up, to);
        }
        Ok(())
    }

    fn shared_width(&self, issue: &Issue) -> Result<usize, ExecuteError> {
        let shared = self.unit(issue)?.layers.iter().find_map(|layer| match &layer.kind {
            LayerKind::Moe(moe) => Some(moe.shared_intermediate / self.run.strategy.tensor),
            _ => None,
        });
        Ok(self.need(issue, "its shared experts", shared)? as usize)
    }

    fn activation_of(&self, issue: &Issue, number: u16) -> Result<(Activation, bool), ExecuteError> {
        match self.layer(issue, number)? {
            LayerKind::Mlp(layer) => Ok((layer.activation, layer.gated)),
            LayerKind::Moe(layer) => Ok((layer.activation, layer.gated)),
            _ => Err(self.missing(issue, "its activation function")),
        }
    }

    fn residual(&mut self, issue: &Issue, layer: u16, branch: Branch) -> Done {
        let role = match branch {
            Branch::Attention => Some("output bias"),
            Branch::Mlp => Some("down bias"),
            Branch::Moe => None,
        };
        let width = self.width(issue, layer)?;
        let bias = match role {
            Some(role) => self.parameter(issue, layer, role)?,
            None => None,
        };
        let (from, stream) = (self.read::<T>(issue.reads[0]), self.read::<T>(issue.reads[1]));
        let dropout = self.dropout(issue, layer, width)?;
        residual::forward(self.pool, width, stream, (from, bias), dropout, self.write::<T>(issue.writes[0]));
        Ok(())
    }

    /// The dropout of a layer's rows of the residual stream, of `width` elements, and where they stand in the whole batch,
    /// if anything is dropped.
    fn dropout(
        &self,
        issue: &Issue,
        layer: u16,
        width: usize,
    ) -> Result<Option<(Dropout, RowPlace<'r>)>, ExecuteError> {
        if self.run.workload.dropout <= 0.0 {
            return Ok(None);
        }
        let dropout = self.dropout_of(self.site(issue, layer, 0)?);
        let start = self.first_sequence(issue) * self.run.workload.seq_len;
        Ok(Some((dropout, RowPlace { start, rows: &self.rank.stream_rows, width: width as u64 })))
    }

    /// The dropout of a site in this step.
    fn dropout_of(&self, site: u64) -> Dropout {
        let (seed, step) = (self.scalar(Scalar::Seed)[0].to_bits(), self.scalar(Scalar::Step)[0] as u64);
        Dropout::new(self.run.workload.dropout, seed, step, site)
    }

    /// What tells the dropouts of a step apart: the layer, and which of its dropouts.
    fn site(&self, issue: &Issue, layer: u16, kind: u64) -> Result<u64, ExecuteError> {
        let first = self.unit(issue)?.tensors.first_layer;
        Ok((first as u64 + u64::from(layer)) * 2 + kind)
    }

    /// The first sequence of the instruction's micro-batch, in the whole batch.
    fn first_sequence(&self, issue: &Issue) -> u64 {
        let strategy = &self.run.strategy;
        (self.rank.data_rank * strategy.accumulation + u64::from(issue.micro)) * strategy.micro_batch
    }

    /// Ids of the instruction's micro-batch.
    fn ids(&self, issue: &Issue, holds: Holds) -> Result<&'r [u32], ExecuteError> {
        let count = self.run.strategy.micro_batch as usize * self.run.local_tokens();
        let ids = self.need(issue, "the buffer of token ids", self.rank.state(holds, None))?;
        Ok(self.read(ids.device.elements(issue.micro as usize * count, count, 4)))
    }

    fn embed(&mut self, issue: &Issue, layer: u16) -> Done {
        let LayerKind::Embedding(kind) = self.layer(issue, layer)? else {
            return Err(self.missing(issue, "its embedding"));
        };
        let table = self.weight(issue, layer, "tokens")?;
        let first = self.first_word(table.len() / kind.hidden as usize);
        let ids = self.ids(issue, Holds::Tokens)?;
        let to = self.write::<T>(issue.writes[0]);
        embedding::forward(self.pool, kind.hidden as usize, (table, first), ids, (to, Into::Set));
        Ok(())
    }

    /// The first word of this rank's shard of the vocabulary, of `rows` rows.
    const fn first_word(&self, rows: usize) -> usize {
        self.rank.slot.tensor as usize * rows
    }

    fn add_positions(&mut self, issue: &Issue, layer: u16) -> Done {
        let width = self.width(issue, layer)?;
        let table = self.weight(issue, layer, "positions")?;
        let rows = &self.rank.stream_positions;
        let to = self.write::<T>(issue.writes[0]);
        // The rows that positions name.
        let table = &table[self.run.model.constants.position_offset as usize * width..];
        embedding::forward(self.pool, width, (table, 0), rows, (to, Into::Add));
        Ok(())
    }

    fn embed_gradient(&mut self, issue: &Issue, layer: u16) -> Done {
        let width = self.width(issue, layer)?;
        let pool = self.pool;
        let ids = self.ids(issue, Holds::Tokens)?;
        let whole = self.read::<T>(issue.reads[0]);
        let stream = self.read::<T>(issue.reads.get(1).copied().unwrap_or(issue.reads[0]));
        let (gradient, write) = self.needed_gradient(issue, layer, "tokens")?;
        if write == Into::Set {
            residual::zero(pool, gradient);
        }
        let first = self.first_word(gradient.len() / width);
        embedding::backward(pool, width, ids, whole, (gradient, first));
        if let Some((gradient, write)) = self.gradient(issue, layer, "positions")? {
            if write == Into::Set {
                gradient.fill(G::default());
            }
            let skipped = self.run.model.constants.position_offset as usize * width;
            let gradient = &mut gradient[skipped..];
            embedding::backward(pool, width, &self.rank.stream_positions, stream, (gradient, 0));
        }
        Ok(())
    }
}

/// Which part of the rows of a role's tensor a matrix is: its roles, and of a gated one the half.
const fn roles(matrix: Matrix) -> &'static [&'static str] {
    match matrix {
        Matrix::QueryKeyValue => &["query", "key", "value"],
        Matrix::AttentionOutput => &["output"],
        Matrix::Gate | Matrix::Up => &["up"],
        Matrix::Down => &["down"],
        Matrix::Router => &["router"],
        Matrix::ExpertGate | Matrix::ExpertUp => &["expert up"],
        Matrix::ExpertDown => &["expert down"],
        Matrix::SharedUp => &["shared up"],
        Matrix::SharedDown => &["shared down"],
        Matrix::Vocabulary { .. } => &["vocabulary"],
    }
}
