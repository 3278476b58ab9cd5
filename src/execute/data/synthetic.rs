//! A stream of tokens for runs without data: random, and yet there is something to learn.
//!
//! The stream is a row of documents of [`DOCUMENT`] tokens, each a function of the seed and its number. Only
//! [`LETTERS`] ids of the vocabulary occur, evenly spread over it. A letter has four successors, of which the letter
//! before it says the likeliest; now and then a document repeats what it had [`ECHO`] tokens before. So there is
//! something for the bias of the head, for pairs, for attention to the token before, and for attention far back.

use super::DataError;
use crate::execute::kernels::dropout::mix;

const DOCUMENT: usize = 256;
/// Ids that occur, at most.
const LETTERS: u64 = 64;
/// How far back, and for how long, a document repeats itself.
const ECHO: usize = 16;

/// Tokens of a seed for a vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    seed: u64,
    vocabulary: u64,
}

impl Synthetic {
    /// Tokens before the stream ends: none sees that many.
    pub const COUNT: u64 = 1 << 60;

    /// For any vocabulary of at least two.
    pub fn new(seed: u64, vocabulary: u32) -> Result<Self, DataError> {
        if vocabulary < 2 {
            return Err(DataError::Vocabulary { vocabulary });
        }
        Ok(Self { seed: mix(seed), vocabulary: vocabulary.into() })
    }

    /// Writes the tokens from `position` on to `tokens`.
    pub fn read(&self, position: u64, tokens: &mut [u32]) {
        let mut number = position / DOCUMENT as u64;
        let mut skipped = (position % DOCUMENT as u64) as usize;
        let mut rest = tokens;
        while !rest.is_empty() {
            let length = rest.len().min(DOCUMENT - skipped);
            let (now, later) = rest.split_at_mut(length);
            let letters = self.document(number, skipped + length);
            now.iter_mut().zip(&letters[skipped..]).for_each(|(token, letter)| *token = self.token(*letter));
            (number, skipped, rest) = (number + 1, 0, later);
        }
    }

    fn letters(&self) -> u64 {
        self.vocabulary.min(LETTERS)
    }

    fn token(&self, letter: u64) -> u32 {
        (letter * self.vocabulary / self.letters()) as u32
    }

    /// The first `length` letters of document `number`; the rest is 0.
    fn document(&self, number: u64, length: usize) -> [u64; DOCUMENT] {
        let mut letters = [0; DOCUMENT];
        let mut random = mix(self.seed ^ mix(number));
        let mut echo = 0;
        for place in 0..length {
            random = mix(random);
            if echo == 0 && place >= ECHO && random >> 32 & 31 == 0 {
                echo = ECHO;
            }
            letters[place] = if echo > 0 {
                echo -= 1;
                letters[place - ECHO]
            } else if place < 2 {
                random % self.letters()
            } else {
                self.successor(letters[place - 2], letters[place - 1], random)
            };
        }
        letters
    }

    /// What follows `before` and `last`: one of four successors of `last`, in five of eight cases the one that
    /// `before` points at.
    fn successor(&self, before: u64, last: u64, random: u64) -> u64 {
        let likeliest = mix(self.seed ^ before) & 3;
        let choice = if random & 7 < 5 { likeliest } else { random >> 3 & 3 };
        let of_last = mix(self.seed ^ (last << 8 | 1));
        // At least two of the four differ, as the stride is no multiple of the number of letters.
        let stride = 1 + (of_last >> 32) % (self.letters() - 1);
        ((of_last & 0xffff_ffff) + choice * stride) % self.letters()
    }
}
