//! The programs whose files are read, a folder each.

mod axolotl;
mod llama_factory;
mod nemo;
mod torchtitan;
mod torchtune;
mod trainer;

use super::format::Format;

static FORMATS: &[&dyn Format] = &[
    &llama_factory::LlamaFactory,
    &axolotl::Axolotl,
    &torchtitan::Command,
    &torchtune::Torchtune,
    &trainer::Trainer,
    &nemo::Nemo1,
];

/// All of them.
pub fn formats() -> impl Iterator<Item = &'static dyn Format> {
    FORMATS.iter().copied()
}
