//! Kernels over elements: activations, residual sums, dropout, copies, compression.

use super::{Binder, Done};
use crate::execute::call::{ActivationCall, ActivationGradientCall, Call, Gated, ResidualCall, RowDropout};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::quantise::Bits;
use crate::execute::ranks::placement::Issue;
use crate::lower::kernel::{Branch, Kernel};
use crate::model::layer::{Activation, LayerKind};
use crate::model::roles::Role;
use crate::profile::choices::Compression;

impl Binder<'_> {
    pub(super) fn elementwise(&mut self, issue: &Issue, kernel: Kernel, layer: u16) -> Done {
        let from = || Ok::<_, ExecuteError>(self.activations(self.read(issue, 0)?));
        let to = self.activations(self.written(issue, 0)?);
        let call = match kernel {
            Kernel::Activation => self.activation(issue, layer)?,
            Kernel::ActivationGradient => self.activation_gradient(issue, layer)?,
            Kernel::Residual(branch) => self.residual(issue, layer, branch)?,
            Kernel::BranchGradient(_) => {
                let dropout = self.row_dropout(issue, layer)?;
                let copy = Call::Copy { from: from()?, to };
                self.push(copy);
                if let Some(dropout) = dropout {
                    self.push(Call::Dropout { dropout, data: to });
                }
                return Ok(());
            }
            Kernel::Dropout | Kernel::DropoutGradient => {
                if let Some(dropout) = self.row_dropout(issue, layer)? {
                    self.push(Call::Dropout { dropout, data: to });
                }
                return Ok(());
            }
            Kernel::Add => Call::Add { from: from()?, to },
            Kernel::Copy => Call::Copy { from: from()?, to },
            Kernel::Zero => Call::Zero { to },
            Kernel::Quantise => {
                Call::Quantise { bits: self.bits(), from: from()?, to: self.bytes(to.region) }
            }
            Kernel::Dequantise => {
                Call::Dequantise { bits: self.bits(), from: self.bytes(self.read(issue, 0)?), to }
            }
            _ => return Err(self.missing(issue, "its kernel over elements")),
        };
        self.push(call);
        Ok(())
    }

    const fn bits(&self) -> Bits {
        match self.run.strategy.compression {
            Compression::FourBit => Bits::Four,
            _ => Bits::Eight,
        }
    }

    fn activation(&self, issue: &Issue, number: u16) -> Result<Call, ExecuteError> {
        let (function, gated) = self.activation_of(issue, number)?;
        let view = |place| Ok::<_, ExecuteError>(self.activations(self.read(issue, place)?));
        let input = match (gated, issue.reads.len()) {
            (false, _) => Gated::No { up: view(0)? },
            // Gate and up of shared experts are columns of one matrix.
            (true, 1) => Gated::Together { both: view(0)?, width: self.shared_width(issue)? },
            (true, _) => Gated::Apart { gate: view(0)?, up: view(1)? },
        };
        let output = self.activations(self.written(issue, 0)?);
        Ok(Call::Activation(Box::new(ActivationCall { function, input, output })))
    }

    fn activation_gradient(&self, issue: &Issue, number: u16) -> Result<Call, ExecuteError> {
        let (function, gated) = self.activation_of(issue, number)?;
        let is_shared = matches!(self.layer(issue, number)?, LayerKind::Moe(_));
        let read = |place| Ok::<_, ExecuteError>(self.activations(self.read(issue, place)?));
        let written = |place| Ok::<_, ExecuteError>(self.activations(self.written(issue, place)?));
        let (input, gradient) = if is_shared && gated {
            let width = self.shared_width(issue)?;
            (Gated::Together { both: read(1)?, width }, Gated::Together { both: written(0)?, width })
        } else if gated {
            let input = Gated::Apart { gate: read(2)?, up: read(1)? };
            (input, Gated::Apart { gate: written(1)?, up: written(0)? })
        } else {
            (Gated::No { up: read(1)? }, Gated::No { up: written(0)? })
        };
        let call = ActivationGradientCall { function, output_gradient: read(0)?, input, gradient };
        Ok(Call::ActivationGradient(Box::new(call)))
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

    fn residual(&self, issue: &Issue, layer: u16, branch: Branch) -> Result<Call, ExecuteError> {
        let role = match branch {
            Branch::Attention => Some(Role::OutputBias),
            Branch::Mlp => Some(Role::DownBias),
            Branch::Moe => None,
        };
        let bias = match role {
            Some(role) => self.parameter(issue, layer, role)?,
            None => None,
        };
        let call = ResidualCall {
            width: self.width(issue, layer)?,
            stream: self.activations(self.read(issue, 1)?),
            branch: self.activations(self.read(issue, 0)?),
            bias,
            dropout: self.row_dropout(issue, layer)?,
            output: self.activations(self.written(issue, 0)?),
        };
        Ok(Call::Residual(Box::new(call)))
    }

    /// The dropout of a layer's rows of the residual stream, if anything is dropped.
    fn row_dropout(&self, issue: &Issue, layer: u16) -> Result<Option<RowDropout>, ExecuteError> {
        let width = self.width(issue, layer)?;
        let rate = self.run.workload.dropout;
        if rate <= 0.0 {
            return Ok(None);
        }
        Ok(Some(RowDropout {
            rate,
            site: self.site(issue, layer, 0)?,
            start: self.first_sequence(issue) * self.run.workload.seq_len,
            width,
            scalars: self.rank.scalar_heads()[0],
        }))
    }
}
