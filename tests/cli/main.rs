//! The program as its users meet it: real runs in folders of their own.

mod accepted;
mod answers;
mod beaten;
mod calibrate;
mod cautions;
mod choice;
mod configs;
mod documents;
mod errors;
mod execute;
mod experts;
mod explain;
mod export;
mod export_model;
mod grammar;
#[cfg(unix)]
mod interrupt;
mod launch;
mod least;
mod limits;
mod lists;
mod machine;
mod malformed;
mod map;
#[cfg(target_os = "linux")]
mod memory;
mod outputs;
#[cfg(unix)]
mod paths;
mod place;
#[cfg(unix)]
mod quoting;
#[cfg(unix)]
mod saves;
mod slice;
mod small;
mod terminal;
mod typed;
mod typed_beside;
mod validate;
