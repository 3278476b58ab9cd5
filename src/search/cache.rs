//! A cache that threads share: what many strategies have in common is computed once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;

/// Values by key; when there are too many, all of them are forgotten.
pub struct Cache<K, V> {
    most: usize,
    known: Mutex<HashMap<K, Arc<V>, FixedState>>,
}

impl<K: Eq + Hash, V> Cache<K, V> {
    /// Nothing is known yet; up to `most` values will be kept.
    pub fn new(most: usize) -> Self {
        Self { most, known: Mutex::default() }
    }

    /// The value of `key`; `make` computes it if it is not known, and may itself use the cache.
    pub fn of(&self, key: K, make: impl FnOnce() -> V) -> Arc<V> {
        let known = self.lock().get(&key).cloned();
        known.unwrap_or_else(|| {
            let made = Arc::new(make());
            let mut known = self.lock();
            if known.len() >= self.most {
                known.clear();
            }
            Arc::clone(known.entry(key).or_insert(made))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<K, Arc<V>, FixedState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
