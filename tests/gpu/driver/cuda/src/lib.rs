//! Stands for NVIDIA's `libcuda` and `libcublasLt`, which are one library here: streams are lazy queues, kernels run on the emulator, and whatever nothing puts in
//! order is an error. `entries` has what a program calls.

mod call;
mod capture;
mod clock;
mod counts;
mod driver;
mod entries;
mod failure;
mod graph;
mod history;
mod kernel;
mod library;
mod memory;
mod perform;
mod product;
mod run;
mod settings;
mod spoil;
mod stream;
mod submit;
mod work;
