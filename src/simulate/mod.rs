//! Plays a step program: when each instruction runs, what memory is alive, where the time goes.

mod account;
mod causes;
mod filling;
mod issue;
mod measured;
pub mod memory;
mod outlook;
pub mod over_time;
pub mod player;
mod quiet;
mod rank;
mod starts;
mod steady;
mod until;
mod watch;

pub use account::{Counters, account};
pub use causes::CauseTimes;
pub use issue::Issue;
pub use measured::{StageSeconds, Timeline, play_measured};
pub use memory::{MemoryPeak, peak};
pub use over_time::{MemoryMoment, memory_over_time};
pub use player::{
    Playback, RankPlayback, Span, busiest, play, play_below, play_counting, play_every_instruction,
};
pub use until::{Stop, Until};
pub use watch::{Below, Slower};
