//! Numbers that are not finite: the kernel that makes the first bad loss stops the step, as an assertion on a device
//! would, before anything is updated; when the step is made again every kernel's output is looked at as it is written.

use crate::execute::element::{Element, Real};
use crate::execute::error::ExecuteError;
use crate::execute::placement::Issue;
use crate::execute::record::lowered;
use crate::execute::worker::Worker;
use crate::lower::Kernel;
use crate::program::instruction::Task;
use crate::program::scalars::Scalar;

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// Looks at what `issue` has just done.
    ///
    /// # Errors
    /// A loss that is not finite; under `inspect`, any output of the forward pass.
    pub(super) fn look_at(&self, issue: &Issue) -> Result<(), ExecuteError> {
        let Task::Kernel { kernel, layer, .. } = issue.task else { return Ok(()) };
        let bad = match kernel {
            Kernel::Loss | Kernel::SquaredError => {
                let loss = self.need(issue, "its loss", self.unit(issue)?.loss)?;
                let sum = self.scalar(Scalar::Loss { loss, micro: issue.micro })[0];
                Some(sum).filter(|sum| !sum.is_finite())
            }
            _ if self.run.settings.inspect && writes_activations(kernel) => {
                let values = self.read::<T>(issue.writes[0]);
                values.iter().map(|value| value.wide().to_f64()).find(|value| !value.is_finite())
            }
            _ => None,
        };
        let Some(value) = bad else { return Ok(()) };
        let layer = self.unit(issue)?.layers[usize::from(layer)].name.clone();
        Err(ExecuteError::NotFinite {
            step: self.step,
            value,
            rank: self.rank.index,
            layer,
            what: lowered(&format!("{kernel:?}")),
        })
    }
}

/// Kernels of the forward pass whose first write is a whole tensor of activations.
const fn writes_activations(kernel: Kernel) -> bool {
    matches!(
        kernel,
        Kernel::Embed
            | Kernel::AddPositions
            | Kernel::Norm(_)
            | Kernel::Linear(_)
            | Kernel::Rotary
            | Kernel::Attention { .. }
            | Kernel::Activation
            | Kernel::ExpertActivation
            | Kernel::Combine
            | Kernel::Residual(_)
            | Kernel::Dropout
    )
}
