//! Stands for NVIDIA's `libcuda`, `libcublasLt` and `libnccl`, which are one library here: streams are lazy queues, kernels
//! run on the emulator, and whatever nothing puts in order is an error. `entries` has what a program calls.

mod background;
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
mod nccl;
mod perform;
mod product;
mod run;
mod settings;
mod spoil;
mod stream;
mod submit;
mod work;
