//! Losses: cross-entropy over shards of the vocabulary, and squared errors against zero.

use super::linear::chunk_rows;
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::kernels::cross_entropy;
use crate::execute::kernels::gradient_norm::square_sum;
use crate::execute::kernels::residual;
use crate::execute::placement::Issue;
use crate::execute::worker::Worker;
use crate::lower::Shape;
use crate::model::layer::LayerKind;
use crate::program::instruction::Holds;
use crate::program::scalars::Scalar;

type Done = Result<(), ExecuteError>;

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// The shard of the vocabulary on this rank.
    fn logits_shard(&self, issue: &Issue, layer: u16) -> Result<cross_entropy::Shard, ExecuteError> {
        let shape = Shape::new(&self.run.strategy, &self.run.workload, self.run.engine);
        let LayerKind::Head(head) = self.layer(issue, layer)? else {
            return Err(self.missing(issue, "its head"));
        };
        let vocabulary = head.vocabulary;
        let columns = shape.local_vocabulary(vocabulary);
        let first = self.rank.slot.tensor * columns;
        let last = vocabulary.min(first + columns).max(first);
        Ok(cross_entropy::Shard { width: columns as usize, vocabulary: first as usize..last as usize })
    }

    /// Targets of the rows of chunk `chunk` of `chunks` of the instruction's micro-batch.
    fn targets(&self, issue: &Issue, (chunk, chunks): (u16, u16)) -> Result<&'r [u32], ExecuteError> {
        let targets = self.ids(issue, Holds::Targets)?;
        Ok(&targets[chunk_rows(targets.len(), chunk, chunks)])
    }

    pub(in crate::execute) fn cross_entropy(&mut self, issue: &Issue, layer: u16, part: (u16, u16)) -> Done {
        let shard = self.logits_shard(issue, layer)?;
        let logits = self.read::<T>(issue.reads[0]);
        let statistics = self.write::<T::Wide>(issue.writes[0]);
        let targets = self.targets(issue, part)?;
        cross_entropy::forward(self.pool, &shard, logits, targets, statistics);
        Ok(())
    }

    /// Each row's statistics over the whole vocabulary, and the sum of the rows' losses.
    pub(in crate::execute) fn loss(&mut self, issue: &Issue) -> Done {
        let statistics = self.write::<T::Wide>(issue.writes[0]);
        if issue.reads[0] != issue.writes[0] {
            let shards = self.read::<T::Wide>(issue.reads[0]);
            let mut shards = shards.chunks_exact(statistics.len().max(1));
            if let Some(first) = shards.next() {
                statistics.copy_from_slice(first);
            }
            shards.for_each(|shard| cross_entropy::merge(statistics, shard));
        }
        // Tensor ranks all know the whole loss of their tokens: the first counts it.
        if self.rank.slot.tensor == 0 {
            self.add_loss(issue, cross_entropy::loss(statistics))?;
        }
        Ok(())
    }

    pub(in crate::execute) fn cross_entropy_gradient(
        &mut self,
        issue: &Issue,
        layer: u16,
        part: (u16, u16),
    ) -> Done {
        let shard = self.logits_shard(issue, layer)?;
        let scale = self.loss_scale(issue)?;
        let statistics = self.read::<T::Wide>(issue.reads[1]);
        let targets = self.targets(issue, part)?;
        let logits = self.write::<T>(issue.writes[0]);
        cross_entropy::backward(self.pool, &shard, logits, targets, statistics, scale);
        Ok(())
    }

    /// Against zero: the mean of the squares of a token's elements, summed over tokens.
    pub(in crate::execute) fn squared_error(&mut self, issue: &Issue) -> Done {
        let values = self.read::<T>(issue.reads[0]);
        let width = self.output_width(issue);
        // Under sequence parallelism each tensor rank has tokens of its own.
        if self.run.strategy.sequence_parallel || self.rank.slot.tensor == 0 {
            self.add_loss(issue, square_sum(self.pool, values).total() / width as f64)?;
        }
        Ok(())
    }

    pub(in crate::execute) fn squared_error_gradient(&mut self, issue: &Issue) -> Done {
        let scale = 2.0 * self.loss_scale(issue)? / self.output_width(issue) as f64;
        let values = self.read::<T>(issue.reads[0]);
        let gradient = self.write::<T>(issue.writes[0]);
        residual::copy(self.pool, values, gradient);
        residual::scale(self.pool, scale, gradient);
        Ok(())
    }

    fn add_loss(&self, issue: &Issue, sum: f64) -> Done {
        let loss = self.need(issue, "its loss", self.unit(issue)?.loss)?;
        self.scalar_mut(Scalar::Loss { loss, micro: issue.micro })[0] += sum;
        Ok(())
    }

    fn loss_scale(&self, issue: &Issue) -> Result<f64, ExecuteError> {
        let loss = self.need(issue, "its loss", self.unit(issue)?.loss)?;
        Ok(self.run.loss_scale(loss))
    }

    /// Elements a token of what the loss reads.
    fn output_width(&self, issue: &Issue) -> usize {
        let tokens = self.run.strategy.micro_batch as usize * self.run.local_tokens();
        let shares = if self.run.strategy.sequence_parallel { self.run.strategy.tensor as usize } else { 1 };
        issue.reads[0].bytes / size_of::<T>() * shares / tokens.max(1)
    }
}
