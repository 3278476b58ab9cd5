//! An engine with its switches set: compiled, with asynchronous tensor parallelism.

use super::engine::EngineProfile;

impl EngineProfile {
    /// Its step is fused by a compiler.
    pub fn fuse(&mut self) {
        self.timing.elementwise_passes = self.timing.compiled_passes.clone();
    }

    /// What a compiled model does not keep, because no gradient reads it.
    pub fn drop_what_compilers_drop(&mut self) {
        let activations = &mut self.activations;
        activations.selective_keeps.retain(|tensor| !activations.compiled_drops.contains(tensor));
    }

    /// Collectives of tensor parallelism are cut in pieces that products use as they come.
    pub fn make_tensor_parallel_asynchronous(&mut self) {
        self.timing.tensor_hidden = self.timing.asynchronous_hidden.clone();
    }
}
