//! The embedded backend trains: against an independent oracle, and every strategy against one rank.

mod oracle;
mod training;
