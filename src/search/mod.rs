//! From a problem to the strategies worth running, and a proof of how far the best of them is from optimal.
//!
//! The search is a best-first branch and bound. An *outer* strategy is a mesh, a schedule, micro-batches and the way
//! state is sharded. Each stands for very many *inner* choices: cuts, checkpoint modes and what is kept on the host.
//! The best played strategy so far is the *incumbent*; what cannot be faster by its lower bound is dropped. The stages,
//! in order (`run`):
//!
//! 1. **The space.** `axes` lists the values of each key, `space` the legal outer strategies. `contradiction` says
//!    which keys leave none.
//! 2. **First incumbents.** `diving` solves and plays what is likely to be good, so that bounds have something to beat.
//! 3. **Lower bounds** over all inner choices, a few operations each (`bounding`): of the passes (`pipeline_bound`,
//!    from the `load` of the blocks and the `pace` of their hosts), of passes and state together (`strategy_bound`,
//!    with `state_prices`), of memory (`memory_bound`, with what schedules hold `in_flight`), of blocks that must find
//!    room (`capacity`, with the `trade` of time for memory), of all micro-batches at once (`large_batch_bound`).
//!    `mesh_orders` leaves out dominated placements.
//! 4. **Inner choices** of those that are left, exact under the closed forms of memory and time (`closed_forms`):
//!    `inner` cuts the blocks (`plain_ranks`, `other_cuts`), `rank_search` is a branch and bound over the `choices`
//!    of one pipeline rank (`rank`), `mixed_blocks` solves an `integer` programme where its blocks are of several
//!    kinds. `solve` puts these together.
//! 5. **Playing** (`playing`), best first (`best_first`), until the `patience` of a search is over; the `incumbent`
//!    is kept, and changed a little in the end (`finish`, `local_search`).
//! 6. **The proof** (`proof`): a set of inner choices is relaxed to what they have in common and played; if that is too
//!    slow, all of them are. The lowest bound that is left is the gap. `exhaustive` trusts no bound and plays all.
//! 7. **The answer**: of what is fast enough, the plan that somebody would run (`robust`); `alternatives`, the `ladder`
//!    from plain data parallelism, a `spare` plan where time is up. `least_memory` answers the other objective
//!    (`lean_choice` chooses inside, `lean_cuts` cuts), and `nothing_fits` asks it for what to say where nothing does.
//!    `explain` and `map` ask further questions about a plan, and get the same answer.
//!
//! Costs of lowered units are computed once for all strategies that share them (`class_costs`, `links`, `cache`).

mod alike;
mod alternatives;
pub mod axes;
mod best_first;
mod bounding;
mod cache;
mod capacity;
mod choices;
mod class_costs;
pub mod closed_forms;
mod contradiction;
mod deadline;
mod diving;
mod exhaustive;
pub mod explain;
mod finish;
mod idle;
mod in_flight;
mod incumbent;
mod inner;
mod integer;
mod ladder;
mod large_batch_bound;
mod lean_choice;
mod lean_cuts;
mod least_memory;
mod links;
mod load;
mod local_search;
pub mod map;
mod memory_bound;
mod mesh_orders;
mod mixed_blocks;
mod modes;
mod no_strategy;
mod nothing_fits;
mod other_cuts;
mod pace;
mod passes;
mod patience;
mod pipeline_bound;
mod plain_ranks;
mod playing;
mod problem;
mod proof;
mod rank;
mod rank_search;
pub mod request;
mod robust;
mod run;
mod solve;
mod space;
mod spare;
mod state_prices;
mod strategy_bound;
mod trade;

pub use crate::simulate::Stop;
pub use problem::{Candidate, Problem, ProcessMemory};
pub use request::{Account, Failure, Objective, Outcome, Progress, Request};
pub use robust::reasons;
pub use run::{bound_all, search};
