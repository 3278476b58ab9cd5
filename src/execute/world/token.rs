//! Tokens of jobs: random, or made of what only the job's processes are told.

use std::fs::File;
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

/// Bytes that only the processes of a job know.
pub type Token = [u8; 16];

/// Random bytes of the system.
pub fn random() -> Token {
    let mut token = Token::default();
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut token));
    if read.is_err() {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        token = (time.as_nanos() ^ u128::from(std::process::id()) << 64).to_le_bytes();
    }
    token
}

/// The token that all processes make of the same `secrets`.
pub fn of(secrets: &[&str]) -> Token {
    let mut digest = Sha256::new();
    for secret in secrets {
        digest.update((secret.len() as u64).to_le_bytes());
        digest.update(secret);
    }
    let mut token = Token::default();
    token.copy_from_slice(&digest.finalize()[..16]);
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_the_same_secrets_are_the_same() {
        assert_eq!(of(&["a", "bc"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", "bc"]), of(&["ab", "c"]));
        assert_ne!(random(), random());
    }
}
