//! Losses: cross-entropy over shards of the vocabulary, and squared errors against zero.

use super::linear::chunk_rows;
use super::{Binder, Done};
use crate::execute::call::{Call, View};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::cross_entropy::Shard;
use crate::execute::ranks::placement::Issue;
use crate::lower::Shape;
use crate::model::layer::LayerKind;
use crate::program::instruction::Holds;
use crate::program::scalars::Scalar;

impl Binder<'_> {
    /// The shard of the vocabulary on this rank.
    fn logits_shard(&self, issue: &Issue, layer: u16) -> Result<Shard, ExecuteError> {
        let shape = Shape::new(&self.run.strategy, &self.run.workload, self.run.engine);
        let LayerKind::Head(head) = self.layer(issue, layer)? else {
            return Err(self.missing(issue, "its head"));
        };
        let vocabulary = head.vocabulary;
        let columns = shape.local_vocabulary(vocabulary);
        let first = self.rank.slot.tensor * columns;
        let last = vocabulary.min(first + columns).max(first);
        Ok(Shard { width: columns as usize, vocabulary: first as usize..last as usize })
    }

    /// Targets of the rows of chunk `chunk` of `chunks` of the instruction's micro-batch.
    fn targets(&self, issue: &Issue, (chunk, chunks): (u16, u16)) -> Result<View, ExecuteError> {
        let targets = self.ids(issue, Holds::Targets)?;
        self.part(issue, targets, chunk_rows(targets.len(), chunk, chunks))
    }

    pub(super) fn cross_entropy(&mut self, issue: &Issue, layer: u16, part: (u16, u16)) -> Done {
        let call = Call::CrossEntropy {
            shard: self.logits_shard(issue, layer)?,
            logits: self.activations(self.read(issue, 0)?),
            targets: self.targets(issue, part)?,
            statistics: self.wide(self.written(issue, 0)?),
        };
        self.push(call);
        Ok(())
    }

    /// Each row's statistics over the whole vocabulary, and the sum of the rows' losses.
    pub(super) fn loss(&mut self, issue: &Issue) -> Done {
        let (shards, statistics) = (self.wide(self.read(issue, 0)?), self.wide(self.written(issue, 0)?));
        if shards != statistics {
            self.push(Call::MergeStatistics { shards, statistics });
        }
        // Tensor ranks all know the whole loss of their tokens: the first counts it.
        if self.rank.slot.tensor == 0 {
            let loss = self.loss_scalar(issue)?;
            self.push(Call::AddLoss { statistics, loss });
        }
        Ok(())
    }

    pub(super) fn cross_entropy_gradient(&mut self, issue: &Issue, layer: u16, part: (u16, u16)) -> Done {
        let call = Call::CrossEntropyGradient {
            shard: self.logits_shard(issue, layer)?,
            logits: self.activations(self.written(issue, 0)?),
            targets: self.targets(issue, part)?,
            statistics: self.wide(self.read(issue, 1)?),
            scale: self.loss_scale(issue)?,
        };
        self.push(call);
        Ok(())
    }

    /// Against zero: the mean of the squares of a token's elements, summed over tokens.
    pub(super) fn squared_error(&mut self, issue: &Issue) -> Done {
        let values = self.activations(self.read(issue, 0)?);
        // Under sequence parallelism each tensor rank has tokens of its own.
        if self.run.strategy.sequence_parallel || self.rank.slot.tensor == 0 {
            let (width, loss) = (self.output_width(values), self.loss_scalar(issue)?);
            self.push(Call::SquaredError { values, width, loss });
        }
        Ok(())
    }

    pub(super) fn squared_error_gradient(&mut self, issue: &Issue) -> Done {
        let values = self.activations(self.read(issue, 0)?);
        let scale = 2.0 * self.loss_scale(issue)? / self.output_width(values) as f64;
        let gradient = self.activations(self.written(issue, 0)?);
        self.push(Call::SquaredErrorGradient { values, gradient, scale });
        Ok(())
    }

    /// Where the loss of the instruction's micro-batch is summed up.
    pub(super) fn loss_scalar(&self, issue: &Issue) -> Result<View, ExecuteError> {
        let loss = self.need(issue, "its loss", self.unit(issue)?.loss)?;
        Ok(self.scalar(Scalar::Loss { loss, micro: issue.micro }))
    }

    fn loss_scale(&self, issue: &Issue) -> Result<f64, ExecuteError> {
        let loss = self.need(issue, "its loss", self.unit(issue)?.loss)?;
        Ok(self.run.loss_scale(loss))
    }

    /// Elements a token of what the loss reads.
    fn output_width(&self, values: View) -> usize {
        let tokens = self.run.strategy.micro_batch as usize * self.run.local_tokens();
        let shares = if self.run.strategy.sequence_parallel { self.run.strategy.tensor as usize } else { 1 };
        values.len() * shares / tokens.max(1)
    }
}
