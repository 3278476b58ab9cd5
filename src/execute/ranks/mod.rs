//! The ranks of a run as the mesh and the program have them, before any device is there: where each stands, where its
//! tensors and buffers lie, what of the model it holds.

pub mod assemble;
pub mod layout;
pub mod mapping;
pub mod parts;
pub mod placement;
pub mod places;
pub mod position;
pub mod rank;
pub mod state;
pub mod unit;
pub mod watched;
