//! The program as its users meet it: real runs in folders of their own.

mod documents;
mod errors;
mod lists;
mod place;
