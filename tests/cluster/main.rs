//! Ranks as processes of MPI train to the bit as ranks that are threads do, and end together whatever happens to one.
//!
//! Needs an MPI, and a program that was built with it: `cargo test --features mpi --test cluster`. As root, Open MPI asks for
//! `OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1`.

#![cfg(unix)]

#[path = "../sampling/dice.rs"]
mod dice;
mod equality;
mod faults;
mod hosts;
mod input;
mod job;
mod slurm;
#[path = "../sampling/texts.rs"]
mod texts;
