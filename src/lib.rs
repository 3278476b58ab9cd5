//! Meshwright plans, simulates and explains parallel training of large models.
//!
//! A plan is a program: a strategy is lowered to a step program, and the simulator plays it.
//!
//! The modules are floors. Each uses only those that stand before it here, which `tests/floors.rs` checks:
//!
//! 1. [`spelling`]: which known names are nearest to a mistyped one, and which characters no name has
//! 2. [`json`]: reading JSON documents, with the field at fault
//! 3. [`units`]: bytes, FLOPs, seconds and rates as types; element types
//! 4. [`files`]: reading and writing the files that somebody named
//! 5. [`ops`]: the operator vocabulary: shapes, FLOPs, bytes moved
//! 6. [`model`]: layers, the layer graph, parameter counts, and where models come from
//! 7. [`profile`]: cost-model and engine-profile files: numbers with their sources
//! 8. [`cluster`]: nodes of devices and the links between them
//! 9. [`strategy`]: the strategy, its text, its rules, and the mesh that it lays over the ranks
//! 10. [`lower`]: a unit of layers under a strategy as the ops of one rank, with what each keeps
//! 11. [`program`]: pipeline schedules and the step program, and its verifier
//! 12. [`cost`]: the price of an op, a collective, a copy; the closed forms of memory and time
//! 13. [`simulate`]: plays a program: timeline, memory curve, causes
//! 14. [`search`]: bounds every strategy, prices what may win, plays the best
//! 15. [`plan`]: the plan document
//! 16. [`export`]: a plan as the configuration of a training engine, and a configuration as a strategy
//! 17. [`trace`]: the trace document: what a run was predicted to take, and took
//! 18. [`execute`]: performs a step program on ranks of this machine
//! 19. [`validate`]: predicts measured runs anew and sums up the errors
//! 20. [`calibrate`]: measures this machine and fits a cost model to it, or fits cost models to published runs
//! 21. [`report`]: a plan as text, as a page, as a trace
//! 22. [`cli`]: the command line; only here is anything printed, and only here does a process end
#![deny(unsafe_code)]

pub mod spelling;

pub mod json;

pub mod units;

pub mod files;

pub mod ops;

pub mod model;

pub mod profile;

pub mod cluster;

pub mod strategy;

pub mod lower;

pub mod program;

pub mod cost;

pub mod simulate;

pub mod search;

pub mod plan;

pub mod export;

pub mod trace;

pub mod execute;

pub mod validate;

pub mod calibrate;

pub mod report;

pub mod cli;
