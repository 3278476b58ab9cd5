//! Collectives between the ranks that share a layer.

use super::{Binder, Done};
use crate::execute::call::{Call, Exchange, View};
use crate::execute::comm::Reduction;
use crate::execute::ranks::placement::Issue;
use crate::execute::storage::Storage;
use crate::lower::Kernel;
use crate::ops::{Collective, CollectiveKind};

/// The sum of what `view` stores, as the same type.
pub(super) const fn sum_of(view: View) -> Reduction {
    match view.storage {
        Storage::Number(number) => Reduction::sum(number),
        Storage::Byte | Storage::Index => panic!("bytes and indices are not summed"),
    }
}

impl Binder<'_> {
    pub(super) fn collective(&mut self, issue: &Issue, op: Collective, kernel: Kernel, layer: u16) -> Done {
        let (from, to) = (self.read(issue, 0)?, self.written(issue, 0)?);
        let exchange = match kernel {
            Kernel::ToHeads { packed } => return self.exchange_heads(issue, (op, layer), (true, packed)),
            Kernel::ToTokens { packed } => return self.exchange_heads(issue, (op, layer), (false, packed)),
            Kernel::GatherStatistics => Exchange::AllGather { own: self.wide(from), whole: self.wide(to) },
            _ => {
                let (from, to) = (self.activations(from), self.activations(to));
                match op.kind {
                    CollectiveKind::AllReduce => Exchange::AllReduce { data: to, reduction: sum_of(to) },
                    CollectiveKind::AllGather => Exchange::AllGather { own: from, whole: to },
                    CollectiveKind::ReduceScatter => {
                        Exchange::ReduceScatter { whole: from, own: to, reduction: sum_of(to) }
                    }
                    CollectiveKind::AllToAll => Exchange::AllToAll { from, to },
                    CollectiveKind::RingShift => Exchange::Shift { from, to },
                }
            }
        };
        self.push(Call::Collective { group: op.group, exchange });
        Ok(())
    }
}
