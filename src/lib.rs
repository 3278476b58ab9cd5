//! Meshwright plans, simulates and explains parallel training of large models.
//!
//! A plan is a program: the strategy is lowered to a step program, which the simulator plays. The modules are
//! floors; each uses only those above it in this list:
#![deny(unsafe_code)]

pub mod units;

pub mod ops;

pub mod cluster;
pub mod model;
pub mod profile;

pub mod strategy;

pub mod lower;

pub mod program;

pub mod cost;

pub mod simulate;

pub mod search;

pub mod plan;

pub mod report;

pub mod cli;
