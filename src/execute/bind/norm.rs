//! Norms, forward and backward.

use super::{Binder, Done};
use crate::execute::call::{Call, NormCall, NormGradientCall, NormWeightCall, Target, View};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::norm::Norm;
use crate::execute::ranks::placement::Issue;
use crate::lower::kernel::{Into, Place};
use crate::model::layer::{LayerKind, NormKind};
use crate::model::roles::Role;

impl Binder<'_> {
    fn norm_of(&self, issue: &Issue, number: u16, place: Place) -> Result<(Norm, Role), ExecuteError> {
        let (norm, role) = match (self.layer(issue, number)?, place) {
            (LayerKind::Embedding(layer), _) => (layer.norm.as_ref(), Role::Norm),
            (LayerKind::Head(layer), _) => (layer.norm.as_ref(), Role::Norm),
            (LayerKind::Moe(layer), _) => (layer.norm.as_ref(), Role::Norm),
            (LayerKind::Attention(layer), Place::Input) => (layer.norm.as_ref(), Role::Norm),
            (LayerKind::Attention(layer), Place::Output) => (layer.output_norm.as_ref(), Role::OutputNorm),
            (LayerKind::Attention(layer), Place::Residual) => {
                (layer.residual_norm.as_ref(), Role::ResidualNorm)
            }
            (LayerKind::Mlp(layer), Place::Input) => (layer.norm.as_ref(), Role::Norm),
            (LayerKind::Mlp(layer), Place::Output) => (layer.output_norm.as_ref(), Role::OutputNorm),
            (LayerKind::Mlp(layer), Place::Residual) => (layer.residual_norm.as_ref(), Role::ResidualNorm),
            (LayerKind::Loss(_), _) => (None, Role::Norm),
        };
        let norm = self.need(issue, role.name(), norm)?;
        let epsilon = self.run.model.constants.norm_epsilon;
        Ok((Norm { kind: norm.kind, width: norm.width as usize, epsilon }, role))
    }

    /// Weight and bias of a norm, where it has them.
    fn norm_parameters(
        &self,
        issue: &Issue,
        layer: u16,
        (norm, role): (Norm, Role),
    ) -> Result<(Option<View>, Option<View>), ExecuteError> {
        if norm.kind == NormKind::Plain {
            return Ok((None, None));
        }
        let both = self.weight(issue, layer, role)?;
        if norm.kind != NormKind::Layer {
            return Ok((Some(both), None));
        }
        let weight = self.part(issue, both, 0..norm.width)?;
        Ok((Some(weight), Some(self.part(issue, both, norm.width..both.len())?)))
    }

    pub(super) fn norm(&mut self, issue: &Issue, layer: u16, place: Place) -> Done {
        let (norm, role) = self.norm_of(issue, layer, place)?;
        let (weight, bias) = self.norm_parameters(issue, layer, (norm, role))?;
        let statistics = issue.writes.get(1).map(|region| self.wide(*region));
        let (input, output) =
            (self.activations(self.read(issue, 0)?), self.activations(self.written(issue, 0)?));
        self.push(Call::Norm(Box::new(NormCall { norm, input, weight, bias, output, statistics })));
        Ok(())
    }

    pub(super) fn norm_gradient(&mut self, issue: &Issue, layer: u16, place: Place, into: Into) -> Done {
        let (norm, role) = self.norm_of(issue, layer, place)?;
        let (weight, _) = self.norm_parameters(issue, layer, (norm, role))?;
        let (arrived, left) = (self.read(issue, 0)?, self.written(issue, 0)?);
        let call = NormGradientCall {
            norm,
            input: self.activations(self.read(issue, 1)?),
            weight,
            statistics: self.statistics(issue, place),
            output_gradient: (arrived != left).then(|| self.activations(arrived)),
            input_gradient: Target { view: self.activations(left), write: into },
        };
        self.push(Call::NormGradient(Box::new(call)));
        Ok(())
    }

    pub(super) fn norm_weight(&mut self, issue: &Issue, layer: u16, place: Place) -> Done {
        let (norm, role) = self.norm_of(issue, layer, place)?;
        if norm.kind == NormKind::Plain {
            return Ok(());
        }
        let call = NormWeightCall {
            norm,
            input: self.activations(self.read(issue, 1)?),
            statistics: self.statistics(issue, place),
            output_gradient: self.activations(self.read(issue, 0)?),
            gradient: self.needed_gradient(issue, layer, role)?,
        };
        self.push(Call::NormWeight(Box::new(call)));
        Ok(())
    }

    /// Norms on the way out keep no statistics.
    fn statistics(&self, issue: &Issue, place: Place) -> Option<View> {
        let region = issue.reads.get(2).filter(|_| place != Place::Output)?;
        Some(self.wide(*region))
    }
}
