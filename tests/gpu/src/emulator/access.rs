//! What a translated load or store says of itself: the low four bits are the space, as `translate::names` counts.

pub const SPACE: u32 = 15;
pub const READ: u32 = 16;
pub const WRITE: u32 = 32;
pub const ATOMIC: u32 = 64;
/// Through the cache for data that nobody changes (`ld.global.nc`).
pub const UNCHANGING: u32 = 128;
