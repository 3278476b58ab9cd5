//! An engine with its switches set: compiled, without master weights, with collectives that hide.

use super::engine::{EngineProfile, MasterWeights, TypeRule, WideStream};
use super::evidence::{Evidence, Sourced};
use super::recomputed::RecomputedModule;

impl EngineProfile {
    /// Its step is fused by a compiler.
    pub fn fuse(&mut self) {
        self.timing.elementwise_passes = self.timing.compiled_passes.clone();
        self.timing.softmax_multiple.value = self.timing.softmax_multiple.value.max(1);
    }

    /// What a compiled model does not keep, because no gradient reads it or it is made again on the way.
    pub fn drop_what_compilers_drop(&mut self) {
        let activations = &mut self.activations;
        activations.keeps.retain(|tensor| !activations.compiled_drops.contains(tensor));
        activations.selective_keeps.retain(|tensor| !activations.compiled_drops.contains(tensor));
        activations.eight_bit_drops.append(&mut activations.compiled_eight_bit_drops);
        if activations.wide_stream == WideStream::Uncompiled {
            activations.wide_stream = WideStream::Never;
        }
        if self.logits.compiled_with_model {
            self.compile_loss();
        }
    }

    /// Under `selective` these modules recompute, and the core of attention if `core` says so.
    pub fn recompute_modules(&mut self, core: bool, modules: &[RecomputedModule]) {
        let activations = &mut self.activations;
        if !core {
            activations.selective_keeps.clone_from(&activations.keeps);
        }
        activations.selective_recomputes = modules.to_vec();
    }

    /// The loss is one kernel forward and one backward: of the logits and a number a row it makes the gradient, in the
    /// logits' type.
    pub fn compile_loss(&mut self) {
        let logits = &mut self.logits;
        logits.single_precision_copy = false;
        logits.gradient_in_place = false;
        (logits.forward_copies, logits.backward_copies) = (0, 0);
    }

    /// Parameters, gradients and moments are of the kernels' type, and so is all that the loss makes.
    pub fn keep_no_master_weights(&mut self) {
        let state = &mut self.state;
        state.master_weights = MasterWeights::None;
        (state.gradient_kept, state.gradient_reduced) = (TypeRule::Compute, TypeRule::Compute);
        state.single_precision_gradient_copy = false;
        state.keeps_working_gradients = false;
        self.logits.copy_in_their_type = true;
    }

    /// Tokens travel to experts and back while another micro-batch computes, by a schedule that is made for it.
    pub fn hide_exchanges(&mut self) {
        self.timing.exchange_hidden = Some(Sourced {
            value: 0.9,
            kind: Evidence::Estimate,
            source: "DeepSeek-V3 report, section 3.2.1: all-to-all is fully hidden".to_owned(),
        });
    }

    /// Collectives of tensor parallelism are cut in pieces that products use as they come.
    pub fn make_tensor_parallel_asynchronous(&mut self) {
        self.timing.tensor_hidden = self.timing.asynchronous_hidden.clone();
    }
}
