//! Attention and its gradients in f64 as their definitions say: whole matrices of probabilities.

use crate::compare::Random;

/// What is tried. Dimensions and features of one launch, with the positions of its tokens.
#[derive(Clone, Debug)]
pub struct Trial {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub query_dim: usize,
    pub value_dim: usize,
    pub query_positions: Vec<u32>,
    pub key_positions: Vec<u32>,
    pub causal: bool,
    pub window: Option<u32>,
    pub scale: f64,
    pub soft_cap: Option<f64>,
    /// The global number of the first head, and how many heads there are.
    pub alibi: Option<(usize, usize)>,
    pub dropout: Option<Dropout>,
}

#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    pub rate: f64,
    pub seed: u64,
    pub step: u64,
    pub site: u64,
    pub first_sequence: u64,
    pub first_head: u64,
    pub heads: u64,
    pub tokens: u64,
}

fn mix(state: u64) -> u64 {
    Random(state).bits()
}

impl Dropout {
    pub fn threshold(&self) -> u64 {
        (self.rate * 2f64.powi(32)).round() as u64
    }

    fn factor(&self, sequence: usize, head: usize, query: u32, key: u32) -> f64 {
        let seeded = mix(mix(mix(self.seed) ^ self.step) ^ self.site);
        let head = (self.first_sequence + sequence as u64) * self.heads + self.first_head + head as u64;
        let element = (head * self.tokens + u64::from(query)) * self.tokens + u64::from(key);
        if mix(seeded ^ element) >> 32 < self.threshold() { 0.0 } else { 1.0 / (1.0 - self.rate) }
    }
}

/// Rows of a token each, and heads in them.
pub struct Tensors {
    pub queries: Vec<f64>,
    pub keys: Vec<f64>,
    pub values: Vec<f64>,
}

pub struct Forward {
    pub output: Vec<f64>,
    pub log_sum_exp: Vec<f64>,
}

impl Trial {
    pub fn tokens(&self) -> usize {
        self.query_positions.len()
    }

    pub fn key_tokens(&self) -> usize {
        self.key_positions.len()
    }

    /// Of a head of a token, in rows of `heads` heads.
    fn head(values: &[f64], heads: usize, width: usize, row: usize, head: usize) -> &[f64] {
        &values[(row * heads + head) * width..][..width]
    }

    pub fn sees(&self, query: usize, key: usize) -> bool {
        let distance = i64::from(self.query_positions[query]) - i64::from(self.key_positions[key]);
        (!self.causal || distance >= 0) && self.window.is_none_or(|window| distance < i64::from(window))
    }

    /// The slope of a head, from Press et al.: 2^(-8 i / n) for the i-th of n heads, n a power of two.
    fn slope(&self, head: usize) -> f64 {
        let Some((first, total)) = self.alibi else { return 0.0 };
        let power = (1..=total).filter(|power| power.is_power_of_two()).max().unwrap_or(1);
        let slopes = |count: usize| (1..=count).map(move |turn| 2f64.powf(-8.0 * turn as f64 / count as f64));
        let all: Vec<f64> = slopes(power).chain(slopes(2 * power).step_by(2)).collect();
        all[first + head]
    }

    /// A score with its derivative by the product.
    pub fn score(&self, product: f64, head: usize, query: usize, key: usize) -> (f64, f64) {
        let scaled = product * self.scale;
        let (score, derivative) = match self.soft_cap {
            Some(cap) => (cap * (scaled / cap).tanh(), self.scale / (scaled / cap).cosh().powi(2)),
            None => (scaled, self.scale),
        };
        let distance = f64::from(self.query_positions[query]) - f64::from(self.key_positions[key]);
        (score - self.slope(head) * distance, derivative)
    }

    pub fn dropped(&self, sequence: usize, head: usize, query: usize, key: usize) -> f64 {
        let (query, key) = (self.query_positions[query], self.key_positions[key]);
        self.dropout.as_ref().map_or(1.0, |dropout| dropout.factor(sequence, head, query, key))
    }

    /// Scores (−∞ where not seen), and derivatives, of a query.
    pub fn scores(&self, of: &Tensors, sequence: usize, head: usize, query: usize) -> Vec<(f64, f64)> {
        let width = self.query_dim;
        let q = Self::head(&of.queries, self.heads, width, sequence * self.tokens() + query, head);
        let shared = head / (self.heads / self.kv_heads);
        let score = |key: usize| {
            let row = sequence * self.key_tokens() + key;
            let k = Self::head(&of.keys, self.kv_heads, width, row, shared);
            let (score, derivative) = self.score(dot(q, k), head, query, key);
            if self.sees(query, key) { (score, derivative) } else { (f64::NEG_INFINITY, 0.0) }
        };
        (0..self.key_tokens()).map(score).collect()
    }

    pub fn forward(&self, of: &Tensors) -> Forward {
        let width = self.value_dim;
        let mut output = vec![0.0; self.batch * self.tokens() * self.heads * width];
        let mut log_sum_exp = vec![f64::NEG_INFINITY; self.batch * self.tokens() * self.heads];
        for (sequence, head, query) in self.rows() {
            let scores = self.scores(of, sequence, head, query);
            let sum: f64 = scores.iter().map(|score| score.0.exp()).sum();
            let place = (sequence * self.tokens() + query) * self.heads + head;
            log_sum_exp[place] = sum.ln();
            let out = &mut output[place * width..][..width];
            for (key, (score, _)) in scores.iter().enumerate().filter(|(_, score)| score.0.is_finite()) {
                let weight = score.exp() / sum * self.dropped(sequence, head, query, key);
                let shared = head / (self.heads / self.kv_heads);
                let value =
                    Self::head(&of.values, self.kv_heads, width, sequence * self.key_tokens() + key, shared);
                out.iter_mut().zip(value).for_each(|(out, value)| *out += weight * value);
            }
        }
        Forward { output, log_sum_exp }
    }

    /// Gradients of queries, keys and values. `log_sum_exp` and `delta`, Σ output · gradient, are those of all keys.
    pub fn backward(&self, of: &Tensors, whole: &Forward, gradient: &[f64]) -> Tensors {
        let zeros = |values: &[f64]| vec![0.0; values.len()];
        let mut sums =
            Tensors { queries: zeros(&of.queries), keys: zeros(&of.keys), values: zeros(&of.values) };
        let group = self.heads / self.kv_heads;
        for (sequence, head, query) in self.rows() {
            let row = sequence * self.tokens() + query;
            let place = row * self.heads + head;
            let own = Self::head(gradient, self.heads, self.value_dim, row, head);
            let delta = dot(own, Self::head(&whole.output, self.heads, self.value_dim, row, head));
            let q = Self::head(&of.queries, self.heads, self.query_dim, row, head);
            for (key, (score, derivative)) in self.scores(of, sequence, head, query).into_iter().enumerate() {
                if score == f64::NEG_INFINITY {
                    continue;
                }
                let key_place = (sequence * self.key_tokens() + key) * self.kv_heads + head / group;
                let probability = (score - whole.log_sum_exp[place]).exp();
                let factor = self.dropped(sequence, head, query, key);
                let value = &of.values[key_place * self.value_dim..][..self.value_dim];
                let of_product = probability * (factor * dot(own, value) - delta) * derivative;
                add(&mut sums.values[key_place * self.value_dim..], own, probability * factor);
                add(&mut sums.keys[key_place * self.query_dim..], q, of_product);
                let k = &of.keys[key_place * self.query_dim..][..self.query_dim];
                add(&mut sums.queries[place * self.query_dim..], k, of_product);
            }
        }
        sums
    }

    pub fn rows(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let (heads, tokens) = (self.heads, self.tokens());
        (0..self.batch * heads * tokens)
            .map(move |at| (at / (heads * tokens), at / tokens % heads, at % tokens))
    }
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], from: &[f64], weight: f64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * from);
}
