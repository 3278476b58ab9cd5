//! The embedded backend trains: against an independent oracle, and every strategy against one rank.

mod equivalence;
mod models;
mod oracle;
mod training;
