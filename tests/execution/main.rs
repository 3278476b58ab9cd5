//! The embedded backend trains: against an independent oracle, and every strategy against one rank.

mod adaptive;
#[path = "../sampling/dice.rs"]
mod dice;
mod differences;
mod equivalence;
mod faults;
mod golden;
mod gradients;
mod models;
mod oracle;
mod precision;
mod strategies;
#[path = "../sampling/texts.rs"]
mod texts;
mod training;
