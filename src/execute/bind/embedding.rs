//! Tables of tokens and positions.

use super::{Binder, Done};
use crate::execute::call::{Call, Indices, List, Target};
use crate::execute::ranks::placement::Issue;
use crate::lower::kernel::Into;
use crate::model::roles::Role;
use crate::program::instruction::Holds;

impl Binder<'_> {
    pub(super) fn embed(&mut self, issue: &Issue, layer: u16) -> Done {
        let width = self.width(issue, layer)?;
        let table = self.weight(issue, layer, Role::Tokens)?;
        let first_row = self.first_word(table.len() / width);
        let indices = Indices::View(self.ids(issue, Holds::Tokens)?);
        let output = Target { view: self.activations(self.written(issue, 0)?), write: Into::Set };
        self.push(Call::Embed { table, first_row, width, indices, output });
        Ok(())
    }

    /// The first word of this rank's shard of the vocabulary, of `rows` rows.
    const fn first_word(&self, rows: usize) -> usize {
        self.rank.slot.tensor as usize * rows
    }

    /// Elements of the table of positions before the first row that a position names.
    fn skipped(&self, width: usize) -> usize {
        self.run.model.constants.position_offset as usize * width
    }

    pub(super) fn add_positions(&mut self, issue: &Issue, layer: u16) -> Done {
        let width = self.width(issue, layer)?;
        let table = self.weight(issue, layer, Role::Positions)?;
        let table = self.part(issue, table, self.skipped(width)..table.len())?;
        let indices = Indices::List(List::StreamPositions);
        let output = Target { view: self.activations(self.written(issue, 0)?), write: Into::Add };
        self.push(Call::Embed { table, first_row: 0, width, indices, output });
        Ok(())
    }

    pub(super) fn embed_gradient(&mut self, issue: &Issue, layer: u16) -> Done {
        let width = self.width(issue, layer)?;
        let whole = self.activations(self.read(issue, 0)?);
        let stream = self.activations(issue.reads.get(1).copied().unwrap_or(whole.region));
        let Target { view: table, write } = self.needed_gradient(issue, layer, Role::Tokens)?;
        if write == Into::Set {
            self.push(Call::Zero { to: table });
        }
        let first_row = self.first_word(table.len() / width);
        let indices = Indices::View(self.ids(issue, Holds::Tokens)?);
        self.push(Call::EmbedGradient { indices, output_gradient: whole, table, first_row, width });
        if let Some(Target { view: table, write }) = self.gradient(issue, layer, Role::Positions)? {
            if write == Into::Set {
                self.push(Call::Zero { to: table });
            }
            let table = self.part(issue, table, self.skipped(width)..table.len())?;
            let indices = Indices::List(List::StreamPositions);
            self.push(Call::EmbedGradient { indices, output_gradient: stream, table, first_row: 0, width });
        }
        Ok(())
    }
}
