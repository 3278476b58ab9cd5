//! The sizes of the axes, and how a batch is made up.

use super::is_auto;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::{Reader, multiples};
use crate::export::syntax::Place;
use crate::strategy::Key;

const TRAIN: &str = "train_batch_size";
const MICRO: &str = "train_micro_batch_size_per_gpu";
const STEPS: &str = "gradient_accumulation_steps";

/// How ranks lie that are not data ranks, for a file that does not say it.
const SAY: &str =
    "tensor_parallel.autotp_size, sequence_parallel_size and pipeline.stages say what the others do";

/// Reads the sizes of the axes; those that the file does not say may be typed, because Python may say them.
pub fn sizes(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let auto = "tensor_parallel.autotp_size";
    let own = "tensor_parallel.tp.tp_size";
    let (automatic, outside) = (reader.count(auto)?.filter(|size| *size > 0), reader.size(own)?);
    let is_said = automatic.is_some() || outside.is_some();
    meaning.leave(Key::Tensor, !is_said);
    let outside = outside.or_else(|| scene.typed(|draft| &draft.tensor).filter(|_| !is_said)).unwrap_or(1);
    let automatic = automatic.unwrap_or(1);
    if automatic > 1 && outside > 1 && automatic != outside {
        return Err(reader.refused(own, format!("it contradicts autotp_size {automatic}")));
    }
    let tensor = automatic.max(outside);
    let context = reader.size("sequence_parallel_size")?;
    meaning.leave(Key::Context, context.is_none());
    let context = context.or_else(|| scene.typed(|draft| &draft.context)).unwrap_or(1);
    let stages = "pipeline.stages";
    let pipeline = if is_auto(reader, stages) { None } else { reader.size(stages)? };
    meaning.leave(Key::Pipeline, pipeline.is_none());
    let pipeline = pipeline.or_else(|| scene.typed(|draft| &draft.pipeline)).unwrap_or(1);
    if automatic > 1 && pipeline > 1 {
        let rule = "AutoTP knows no pipeline: the layers of a pipeline split themselves, and tp.tp_size says how far";
        return Err(reader.refused(auto, rule).or(vec!["0".to_owned()]));
    }
    if tensor > 1 && automatic <= 1 && pipeline == 1 {
        meaning
            .notes
            .push("Without AutoTP, the model is taken to split itself over its tensor ranks.".to_owned());
    }
    let inside = tensor.saturating_mul(context).saturating_mul(pipeline);
    if !scene.devices.is_multiple_of(inside) {
        let field = match (tensor > 1, context > 1) {
            (true, _) if automatic > 1 => auto,
            (true, _) => own,
            (_, true) => "sequence_parallel_size",
            _ => stages,
        };
        let rule = format!(
            "tensor {tensor}, sequence {context} and pipeline {pipeline} do not multiply to a part of the {} devices",
            scene.devices
        );
        return Err(reader.refused(field, rule));
    }
    let data = scene.devices / inside;
    let path = "data_parallel_size";
    if reader.size(path)?.is_some_and(|said| said != data) {
        let rule = format!("the other sizes leave {data} of {} devices", scene.devices);
        return Err(reader.refused(path, rule).or(vec![data.to_string()]));
    }
    let draft = &mut meaning.draft;
    draft.tensor = Some(tensor);
    draft.context = Some(context);
    draft.context_kind = (context > 1).then_some(crate::strategy::ContextKind::Ulysses);
    draft.pipeline = Some(pipeline);
    draft.data = Some(data);
    draft.sequence_parallel = (tensor > 1).then_some(false);
    Ok(())
}

/// How the micro-batch is said beside a file that leaves it open.
const ASK_MICRO: &str = "--strategy micro=N says it";

/// Reads the batch: of its three numbers DeepSpeed fills in what is missing (0.19.8 `runtime/config.py:607`).
pub fn batch(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let size = |path: &str| if is_auto(reader, path) { Ok(None) } else { reader.size(path) };
    let (train, micro, steps) = (size(TRAIN)?, size(MICRO)?, size(STEPS)?);
    meaning.leave(Key::MicroBatch, micro.is_none());
    meaning.leave(Key::Accumulation, steps.is_none());
    let micro = micro.or_else(|| scene.typed(|draft| &draft.micro_batch));
    let steps = steps.or_else(|| scene.typed(|draft| &draft.accumulation));
    let data = meaning.draft.data.unwrap_or(1);
    let open = |path: &'static str| is_auto(reader, path).then_some(path);
    let asked = |path: &str, answer: &str| {
        let found = reader.document().get(path);
        if found.is_some_and(|found| reader.document().origin(found).place == Place::Default) {
            return ImportError::Unsaid { what: "the micro-batch", flag: "--strategy micro=N" };
        }
        reader.refused(
            path,
            format!("transformers or Accelerate fill it in, so the file does not say it: {answer}"),
        )
    };
    let divided = |path: &str, whole: u64, part: u64| {
        let rule = format!(
            "it must be a multiple of {part}: {data} data ranks and what else the batch is made up of; {SAY}"
        );
        whole.checked_div(part).filter(|_| whole.is_multiple_of(part)).ok_or_else(|| {
            if reader.has(path) && !is_auto(reader, path) {
                reader.refused(path, rule).or(multiples(whole, part))
            } else {
                let rule = format!("a global batch of {whole} is no multiple of {part}, {data} data ranks and what else it is made up of; {SAY}");
                reader.refused(MICRO, rule)
            }
        })
    };
    let both = |one: u64, other: u64| one.saturating_mul(other);
    let (micro, steps) = match (train.or(scene.global_batch), micro, steps) {
        (Some(batch), Some(micro), Some(steps)) if train.is_some() => {
            if both(both(micro, steps), data) != batch {
                let rule = format!(
                    "{MICRO} {micro}, {STEPS} {steps} and {data} data ranks multiply to {}; {SAY}",
                    both(both(micro, steps), data)
                );
                return Err(reader.refused(TRAIN, rule));
            }
            (micro, steps)
        }
        (Some(batch), Some(micro), _) => (micro, divided(TRAIN, batch, both(micro, data))?),
        (Some(batch), None, Some(steps)) => (divided(TRAIN, batch, both(steps, data))?, steps),
        (Some(batch), None, None) => match open(MICRO).or(open(STEPS)) {
            Some(path) => return Err(asked(path, ASK_MICRO)),
            None => (divided(TRAIN, batch, data)?, 1),
        },
        (None, Some(_), None) if is_auto(reader, STEPS) => {
            return Err(asked(STEPS, "give --global-batch N, or --strategy accum=N"));
        }
        (None, Some(micro), steps) => (micro, steps.unwrap_or(1)),
        (None, None, _) => match open(MICRO).or(open(TRAIN)) {
            Some(path) => {
                return Err(asked(path, &format!("give --global-batch N, and for the rest {ASK_MICRO}")));
            }
            None => {
                let what = "train_batch_size or train_micro_batch_size_per_gpu";
                return Err(ImportError::Unsaid { what, flag: "--global-batch N" });
            }
        },
    };
    meaning.draft.micro_batch = Some(micro);
    meaning.draft.accumulation = Some(steps);
    meaning.global_batch = Some(both(both(micro, steps), data));
    Ok(())
}
