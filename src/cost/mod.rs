//! The price of an op, a collective, a copy; the closed forms of memory and of time.
//!
//! Nothing here does I/O or knows of a clock: a price is a duration alone on the machine, and what share of each
//! resource it takes meanwhile.

pub mod bound;
pub mod calls;
pub mod collective;
pub mod cores;
pub mod digest;
pub mod flow;
pub mod gemm;
pub mod instants;
pub mod kernels;
pub mod known_chunks;
pub mod ledger;
mod pass_times;
pub mod price;
pub mod route;
pub mod unit_cost;
mod walk;

pub use price::{DevicePricing, NeverLate, Price, Pricing, Resource, Unhindered};
