//! How a strategy's numerics differ from plain data parallelism; said wherever the strategy is shown.

use super::{Capacity, Compression, Facts, Strategy, defaults};
use crate::profile::engine::TypeRule;
use crate::units::{ElementType, grouped, several};

impl Strategy {
    /// One short sentence for each way in which the numbers differ from those of plain data parallelism in the
    /// workload's precision, beyond the order of sums. Empty where they do not.
    pub fn differences(&self, facts: &Facts) -> Vec<String> {
        let workload = &facts.workload;
        let state = &facts.profile.state;
        let mut sentences = Vec::new();
        match self.compression {
            Compression::None => {}
            Compression::EightBit | Compression::FourBit => sentences.push(format!(
                "Saved activations are rounded to {} integers, so gradients are approximate.",
                if self.compression == Compression::EightBit { "8-bit" } else { "4-bit" }
            )),
        }
        if workload.precision == ElementType::Fp8 {
            sentences.push("Matrices are multiplied in fp8.".to_owned());
        }
        let kept = defaults::plain_gradient(workload);
        if self.gradient_type != kept {
            let who = match state.gradient_kept {
                TypeRule::Strategy => "Gradients are kept".to_owned(),
                TypeRule::Compute | TypeRule::AsKept | TypeRule::Single | TypeRule::SingleForBf16 => {
                    format!("{} keeps gradients", facts.profile.name)
                }
            };
            sentences.push(format!("{who} in {}, not in {kept}.", self.gradient_type));
        }
        let reduced = workload.compute_type();
        if self.reduce_type != reduced && self.reduce_type.size() <= reduced.size() {
            sentences.push(format!("Gradients are reduced in {}, not in {reduced}.", self.reduce_type));
        }
        if let Capacity::Factor(factor) = self.capacity
            && facts.experts.iter().any(|experts| factor * (experts.top_k as f64) < experts.count as f64)
        {
            sentences.push(format!(
                "Experts drop tokens beyond capacity {factor}, counted for each micro-batch and rank."
            ));
        }
        let batch = self.data * self.micro_batch * self.accumulation;
        if batch != workload.global_batch {
            sentences.push(format!(
                "The batch is {}, not {}.",
                several("sequence", batch),
                grouped(workload.global_batch)
            ));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::super::Draft;
    use super::super::sample::{dense, facts, moe};
    use super::*;

    fn differences(text: &str, facts: &Facts) -> Vec<String> {
        Draft::parse(text).unwrap().resolve(facts).unwrap().differences(facts)
    }

    #[test]
    fn plain_strategies_compute_what_data_parallelism_computes() {
        let facts = facts(&dense(), 64, "embedded");
        for text in ["", "tp=4,pp=2,zero=1,ckpt=full", "zero=3,offload=optimizer:1,loss=chunked,reduce=fp32"]
        {
            assert!(differences(text, &facts).is_empty(), "{text}");
        }
    }

    #[test]
    fn every_departure_has_its_sentence() {
        let mut facts = facts(&moe(), 64, "embedded");
        facts.workload.precision = ElementType::Fp8;
        let sentences = differences("compress=4bit,grad=bf16,reduce=fp16,capacity=1.5", &facts);
        assert_eq!(
            sentences,
            [
                "Saved activations are rounded to 4-bit integers, so gradients are approximate.",
                "Matrices are multiplied in fp8.",
                "Gradients are kept in bf16, not in fp32.",
                "Gradients are reduced in fp16, not in bf16.",
                "Experts drop tokens beyond capacity 1.5, counted for each micro-batch and rank.",
            ]
        );
        assert!(differences("capacity=4", &facts).len() == 1, "top-2 of 8 experts: a factor of 4 drops none");
    }

    #[test]
    fn engines_that_keep_16_bit_gradients_say_so() {
        let facts = facts(&dense(), 64, "deepspeed");
        assert_eq!(differences("zero=2", &facts), ["deepspeed keeps gradients in bf16, not in fp32."]);
    }

    #[test]
    fn another_batch_is_named() {
        let facts = facts(&dense(), 64, "embedded");
        let mut strategy = Draft::default().resolve(&facts).unwrap();
        strategy.accumulation = 16;
        assert_eq!(strategy.differences(&facts), ["The batch is 1,024 sequences, not 512."]);
    }
}
