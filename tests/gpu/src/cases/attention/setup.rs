//! A trial of attention on the device: its launches with their arguments, and comparisons with the reference.

use super::reference::{Forward, Tensors, Trial};
use crate::cases::operands::{Outcome, Stored, Tensor, run};
use crate::compare::{Random, close_f32};
use crate::launch::attention::{self, Attention};
use crate::launch::gemm::Element;
use crate::{Argument, Buffer, Gpu, Launch, Source};

/// A trial on the device. Queries, keys and values are columns of matrices, as linear layers leave them.
pub struct Setup {
    pub trial: Trial,
    stored: Stored,
    pub shape: Attention,
    pub tensors: Tensors,
    queries: Tensor,
    keys_values: Tensor,
    output_gradient: Tensor,
    output: Buffer,
    log_sum_exp: Buffer,
    lists: [Buffer; 2],
    scalars: Buffer,
}

/// Columns before the queries.
const MARGIN: usize = 8;

impl Setup {
    pub fn new(gpu: &mut Gpu, stored: Stored, trial: Trial) -> Self {
        let mut random = Random(trial.tokens() as u64 * 3 + trial.key_tokens() as u64);
        let (rows, key_rows) = (trial.batch * trial.tokens(), trial.batch * trial.key_tokens());
        let (query_width, key_width, value_width) = widths(&trial);
        let queries = stored.random(gpu, &mut random, rows * (MARGIN + query_width), 1.0);
        let keys_values = stored.random(gpu, &mut random, key_rows * (key_width + value_width), 1.0);
        let out = rows * trial.heads * trial.value_dim;
        let output_gradient = stored.random(gpu, &mut random, out, 1.0);
        let tensors = Tensors {
            queries: columns(&queries.values, MARGIN + query_width, MARGIN, query_width),
            keys: columns(&keys_values.values, key_width + value_width, 0, key_width),
            values: columns(&keys_values.values, key_width + value_width, key_width, value_width),
        };
        let shape = Attention {
            element: if stored == Stored::Bf16 { Element::Bf16 } else { Element::F32 },
            query_dim: trial.query_dim as u32,
            value_dim: trial.value_dim as u32,
            batch: trial.batch as u32,
            tokens: trial.tokens() as u32,
            key_tokens: trial.key_tokens() as u32,
            heads: trial.heads as u32,
            kv_heads: trial.kv_heads as u32,
            soft_cap: trial.soft_cap.is_some(),
            alibi: trial.alibi.is_some(),
            dropout: trial.dropout.is_some(),
            aligned: trial.query_dim.is_multiple_of(8) && trial.value_dim.is_multiple_of(8),
        };
        let (step, seed) = trial.dropout.map_or((0, 0), |dropout| (dropout.step, dropout.seed));
        Self {
            output: stored.output(gpu, out),
            log_sum_exp: gpu.uninitialised::<f32>(rows * trial.heads),
            lists: [gpu.upload(&trial.query_positions), gpu.upload(&trial.key_positions)],
            scalars: gpu.upload(&[step as f64, f64::from_bits(seed)]),
            trial,
            stored,
            shape,
            tensors,
            queries,
            keys_values,
            output_gradient,
        }
    }

    /// The same queries, and what belongs to them, as `other`.
    pub fn take_queries(&mut self, other: &Self) {
        (self.queries, self.output_gradient) = (other.queries.clone(), other.output_gradient.clone());
        (self.output, self.log_sum_exp) = (other.output, other.log_sum_exp);
        self.tensors.queries.clone_from(&other.tensors.queries);
    }

    pub fn inputs(&self) -> Vec<Argument> {
        let (query_width, key_width, value_width) = widths(&self.trial);
        let part = |tensor: &Tensor, column: usize| {
            Argument::Part(tensor.buffer, column as u64 * self.stored.bytes())
        };
        vec![
            part(&self.queries, MARGIN),
            Argument::U64((MARGIN + query_width) as u64),
            part(&self.keys_values, 0),
            part(&self.keys_values, key_width),
            Argument::U64((key_width + value_width) as u64),
        ]
    }

    pub fn core(&self) -> Vec<Argument> {
        let trial = &self.trial;
        let (first_head, heads) = match (trial.alibi, trial.dropout) {
            (_, Some(dropout)) => (dropout.first_head as u32, dropout.heads as u32),
            (Some((first, total)), None) => (first as u32, total as u32),
            (None, None) => (0, trial.heads as u32),
        };
        let ascends = trial.query_positions.is_sorted() && trial.key_positions.is_sorted();
        let mut arguments = vec![
            Argument::U32(trial.tokens() as u32),
            Argument::U32(trial.key_tokens() as u32),
            Argument::U32(trial.heads as u32),
            Argument::U32((trial.heads / trial.kv_heads) as u32),
            Argument::Buffer(self.lists[0]),
            Argument::Buffer(self.lists[1]),
            Argument::U32(ascends.into()),
            Argument::I32(attention::nearest(trial.causal)),
            Argument::I32(attention::reach(trial.window)),
            Argument::F32(trial.scale as f32),
            Argument::F32(trial.soft_cap.unwrap_or(0.0) as f32),
            Argument::U32(first_head),
            Argument::U32(heads),
        ];
        if let Some(dropout) = trial.dropout {
            arguments.extend([
                Argument::Buffer(self.scalars),
                Argument::U64(dropout.site),
                Argument::U64(dropout.threshold()),
                Argument::F32((1.0 / (1.0 - dropout.rate)) as f32),
                Argument::U64(dropout.first_sequence),
                Argument::U64(dropout.tokens),
            ]);
        }
        arguments
    }

    pub fn forward(&mut self, gpu: &mut Gpu, resumes: bool) -> Outcome {
        self.forward_by(gpu, attention::forward(&self.shape), resumes)
    }

    pub fn forward_by(&mut self, gpu: &mut Gpu, launched: (Source, Launch), resumes: bool) -> Outcome {
        let mut arguments = self.inputs();
        arguments.extend([self.output, self.log_sum_exp].map(Argument::Buffer));
        arguments.push(Argument::U32(resumes.into()));
        arguments.extend(self.core());
        run(gpu, &launched.0, &launched.1, &arguments)
    }

    pub fn compare_forward(&self, gpu: &mut Gpu, expected: &Forward) -> Outcome {
        let what = |name| format!("{name} of {:?}", self.shape);
        let log_sum_exp: Vec<f32> = gpu.download(self.log_sum_exp);
        close_f32(&what("log-sum-exp"), &log_sum_exp, &expected.log_sum_exp, self.trial.heads)?;
        let row = self.trial.heads * self.trial.value_dim;
        self.stored.close(gpu, &what("output"), self.output, &expected.output, row)
    }

    /// Gradients, set or added to what is there.
    pub fn backward(&self, gpu: &mut Gpu, expected: &Forward, add: bool) -> Outcome {
        let trial = &self.trial;
        let rows = trial.batch * trial.tokens();
        let delta = gpu.uninitialised::<f32>(rows * trial.heads);
        let (source, launch) = attention::delta(&self.shape);
        let gradient = self.output_gradient.argument();
        let sizes = [rows * trial.heads, trial.value_dim].map(|size| Argument::U32(size as u32));
        let arguments =
            [Argument::Buffer(self.output), gradient, Argument::Buffer(delta), sizes[0], sizes[1]];
        run(gpu, &source, &launch, &arguments)?;
        let mut saved = self.inputs();
        saved.extend([gradient, Argument::Buffer(self.log_sum_exp), Argument::Buffer(delta)]);

        let (query_width, key_width, value_width) = widths(trial);
        let stored = self.stored;
        let mut random = Random(9);
        let queries = stored.random(gpu, &mut random, rows * (MARGIN + query_width), 0.5);
        let stride = key_width + value_width;
        let keys_values = stored.random(gpu, &mut random, trial.batch * trial.key_tokens() * stride, 0.5);
        let part =
            |tensor: &Tensor, column: usize| Argument::Part(tensor.buffer, column as u64 * stored.bytes());
        let (source, launch) = attention::backward_queries(&self.shape);
        let to =
            [part(&queries, MARGIN), Argument::U64((MARGIN + query_width) as u64), Argument::U32(add.into())];
        run(gpu, &source, &launch, &[saved.clone(), to.to_vec(), self.core()].concat())?;
        let (source, launch) = attention::backward_keys(&self.shape);
        let to = [part(&keys_values, 0), part(&keys_values, key_width)];
        let how = [Argument::U64(stride as u64), Argument::U32(add.into())];
        run(gpu, &source, &launch, &[saved, to.to_vec(), how.to_vec(), self.core()].concat())?;

        let sums = trial.backward(&self.tensors, expected, &self.output_gradient.values);
        let compare = |gpu: &mut Gpu, name: &str, of: &Tensor, place: [usize; 3], sums: &[f64]| {
            let [stride, first, width] = place;
            let actual: Vec<f64> = stored.download(gpu, of.buffer).into_iter().map(f64::from).collect();
            let actual: Vec<f32> =
                columns(&actual, stride, first, width).into_iter().map(|value| value as f32).collect();
            let before = columns(&of.values, stride, first, width);
            let expected: Vec<f64> =
                sums.iter().zip(before).map(|(sum, before)| if add { sum + before } else { *sum }).collect();
            let what = format!("gradient of {name} of {:?}, added: {add}", self.shape);
            crate::compare::close(&what, &actual, &expected, width, stored.tolerance())
        };
        compare(gpu, "queries", &queries, [MARGIN + query_width, MARGIN, query_width], &sums.queries)?;
        compare(gpu, "keys", &keys_values, [stride, 0, key_width], &sums.keys)?;
        compare(gpu, "values", &keys_values, [stride, key_width, value_width], &sums.values)
    }
}

/// Columns of queries, of keys and of values.
fn widths(trial: &Trial) -> (usize, usize, usize) {
    (trial.heads * trial.query_dim, trial.kv_heads * trial.query_dim, trial.kv_heads * trial.value_dim)
}

fn columns(values: &[f64], stride: usize, first: usize, width: usize) -> Vec<f64> {
    values.chunks(stride).flat_map(|row| &row[first..first + width]).copied().collect()
}
