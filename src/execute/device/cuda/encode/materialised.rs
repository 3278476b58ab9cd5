//! Attention that keeps its probabilities: products for every head of every sequence, with the softmax between them.

use super::super::launch::attention::{self, Attention};
use super::super::launch::gemm::{self, Factor, Product, is_aligned};
use super::super::work::{Kernel, Span, Works};
use super::attention::Places;
use super::products::launched;
use super::{CudaError, Encoded, Encoder, work};
use crate::execute::call::{AttentionCall, AttentionGradientCall, View};
use crate::lower::kernel::Into;

/// A matrix of each head of each sequence: where they lie. Strides count elements.
#[derive(Clone, Copy, Debug)]
struct Matrices {
    span: Span,
    /// From line to line.
    stride: u64,
    /// From one of the heads that share a key-value head to the next.
    member: u64,
    /// From the heads of one key-value head to those of the next.
    head: u64,
    sequence: u64,
}

impl Matrices {
    /// Queries and keys of all pairs: probabilities or scores, [sequences, heads, queries, keys].
    fn of_pairs(shape: &Attention, span: Span) -> Self {
        let map = u64::from(shape.tokens) * u64::from(shape.key_tokens);
        Self {
            span,
            stride: shape.key_tokens.into(),
            member: map,
            head: map * shape.group(),
            sequence: map * u64::from(shape.heads),
        }
    }

    /// Rows of query heads of `width` elements, such as queries and outputs.
    fn of_queries(shape: &Attention, span: Span, stride: u64, width: u32) -> Self {
        let width = u64::from(width);
        let (head, sequence) = (width * shape.group(), stride * u64::from(shape.tokens));
        Self { span, stride, member: width, head, sequence }
    }

    /// Rows of key-value heads.
    fn of_keys(shape: &Attention, span: Span, stride: u64, width: u32) -> Self {
        let (head, sequence) = (width.into(), stride * u64::from(shape.key_tokens));
        Self { span, stride, member: 0, head, sequence }
    }
}

/// A product of matrices, and whether each factor is read transposed.
struct Multiply {
    /// Rows and columns of the result, and the depth.
    size: [u32; 3],
    left: (Matrices, bool),
    right: (Matrices, bool),
    output: Matrices,
    write: Into,
}

impl Encoder<'_> {
    /// A launch for each of the heads that share a key-value head: those that add to one result come one after the other.
    fn multiply(&self, shape: &Attention, product: &Multiply, works: &mut Works) -> Result<(), CudaError> {
        let [m, n, k] = product.size;
        if m == 0 || n == 0 {
            return Ok(());
        }
        for member in 0..shape.group() {
            let place = |of: Matrices| of.span.behind(of.member * member * self.size());
            let factor = |(of, transposed): (Matrices, bool)| Factor {
                element: shape.element,
                transposed,
                aligned: is_aligned(place(of).address, of.stride, of.head) && of.sequence.is_multiple_of(8),
            };
            let plan = gemm::plan(&Product {
                m,
                n,
                k,
                batch: shape.kv_heads,
                batches: shape.batch,
                left: factor(product.left),
                right: factor(product.right),
                output: shape.element,
                workspace: 0,
                multiprocessors: self.multiprocessors,
            });
            let matrices = [product.left.0, product.right.0, product.output];
            let adds = product.write == Into::Add || (product.output.member == 0 && member > 0);
            let strides =
                [matrices.map(|of| of.stride), matrices.map(|of| of.head), matrices.map(|of| of.sequence)];
            works.push(launched(plan, (matrices.map(place), None), product.size, strides, adds));
        }
        Ok(())
    }

    /// The forward into `all` probabilities and what dropout leaves of them.
    pub(super) fn materialised(
        &self,
        call: &AttentionCall,
        shape: &Attention,
        places: &Places,
        (all, kept): (View, Option<View>),
    ) -> Encoded {
        let &Attention { tokens, key_tokens, heads, query_dim, value_dim, .. } = shape;
        let probabilities = self.at(all);
        let kept = self.at_any(kept);
        let mut works = Works::new();
        let scores = Multiply {
            size: [tokens, key_tokens, query_dim],
            left: (Matrices::of_queries(shape, places.queries, places.query_stride, query_dim), false),
            right: (Matrices::of_keys(shape, places.keys, places.key_stride, query_dim), true),
            output: Matrices::of_pairs(shape, probabilities),
            write: Into::Set,
        };
        self.multiply(shape, &scores, &mut works)?;
        let softmax = Kernel::new(attention::softmax(shape)).updates(probabilities).writes_any(kept);
        works.push(work(self.core(softmax, &call.core, shape)?));
        let stride = u64::from(heads) * u64::from(value_dim);
        let output = Multiply {
            size: [tokens, value_dim, key_tokens],
            left: (Matrices::of_pairs(shape, kept.unwrap_or(probabilities)), false),
            right: (Matrices::of_keys(shape, places.values, places.key_stride, value_dim), false),
            output: Matrices::of_queries(shape, self.at(call.output.view), stride, value_dim),
            write: call.output.write,
        };
        self.multiply(shape, &output, &mut works)?;
        Ok(works)
    }

    /// The gradients from those of the output. Those of keys and values are rounded once for each head that shares them.
    pub(super) fn materialised_gradient(
        &self,
        call: &AttentionGradientCall,
        shape: &Attention,
        [places, gradients]: [&Places; 2],
        (all, kept): (View, Option<View>),
    ) -> Encoded {
        let &Attention { tokens, key_tokens, heads, query_dim, value_dim, .. } = shape;
        let Some(scores) = self.at_any(call.scores) else {
            return Err(CudaError::Unsupported("gradients of scores without memory for them".into()));
        };
        let of_queries =
            |places: &Places| Matrices::of_queries(shape, places.queries, places.query_stride, query_dim);
        let of_keys = |places: &Places| Matrices::of_keys(shape, places.keys, places.key_stride, query_dim);
        let of_values =
            |places: &Places| Matrices::of_keys(shape, places.values, places.key_stride, value_dim);
        let (probabilities, of_scores) = (self.at(all), Matrices::of_pairs(shape, scores));
        let weights = Matrices::of_pairs(shape, self.at_any(kept).unwrap_or(probabilities));
        let stride = u64::from(heads) * u64::from(value_dim);
        let of_output = Matrices::of_queries(shape, self.at(call.output_gradient), stride, value_dim);
        let mut works = Works::new();
        let product = Multiply {
            size: [tokens, key_tokens, value_dim],
            left: (of_output, false),
            right: (of_values(places), true),
            output: of_scores,
            write: Into::Set,
        };
        self.multiply(shape, &product, &mut works)?;
        let softmax = Kernel::new(attention::softmax_backward(shape)).reads(probabilities).updates(scores);
        works.push(work(self.core(softmax, &call.core, shape)?));
        if shape.soft_cap {
            let cap = Kernel::new(attention::soft_cap_backward(shape))
                .reads(places.queries)
                .number(places.query_stride)
                .reads(places.keys)
                .number(places.key_stride)
                .updates(scores);
            works.push(work(self.core(cap, &call.core, shape)?));
        }
        let (queries, keys) = (call.query_write, call.key_value_write);
        for product in [
            Multiply {
                size: [tokens, query_dim, key_tokens],
                left: (of_scores, false),
                right: (of_keys(places), false),
                output: of_queries(gradients),
                write: queries,
            },
            Multiply {
                size: [key_tokens, query_dim, tokens],
                left: (of_scores, true),
                right: (of_queries(places), false),
                output: of_keys(gradients),
                write: keys,
            },
            Multiply {
                size: [key_tokens, value_dim, tokens],
                left: (weights, true),
                right: (of_output, false),
                output: of_values(gradients),
                write: keys,
            },
        ] {
            self.multiply(shape, &product, &mut works)?;
        }
        Ok(works)
    }
}
