//! Bugs of a program, made by the driver on its behalf: a call that is told to does what a wrong program would have asked
//! for, so that tests can see whether such a program is found out.

use std::str::FromStr;

/// How far what is moved lies from where it should.
pub const FAR: u64 = 64;

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// It isn't made: a wait for an event is missing.
    Ignored,
    /// A copy writes to another place; a product reads its left factor from another.
    Moved,
    /// A kernel's pointer to another place: the argument of this number.
    MovedArgument(usize),
    /// The first number that a kernel is given is one more; columns of a product's left factor lie one element further
    /// apart.
    More,
}

impl Spoil {
    pub const WORDS: &str = "ignored, more, moved or moved-ARGUMENT";
}

impl FromStr for Spoil {
    type Err = ();
    fn from_str(text: &str) -> Result<Spoil, ()> {
        match text.split_once('-') {
            None if text == "ignored" => Ok(Spoil::Ignored),
            None if text == "moved" => Ok(Spoil::Moved),
            None if text == "more" => Ok(Spoil::More),
            Some(("moved", number)) => number.parse().map(Spoil::MovedArgument).map_err(|_| ()),
            _ => Err(()),
        }
    }
}

/// What the bytes of an argument become.
pub fn changed(argument: &mut [u8], change: u64) {
    let mut bits = [0; 8];
    bits[..argument.len()].copy_from_slice(argument);
    let bits = u64::from_le_bytes(bits).wrapping_add(change).to_le_bytes();
    argument.copy_from_slice(&bits[..argument.len()]);
}
