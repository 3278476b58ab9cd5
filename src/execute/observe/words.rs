//! What instructions are called in traces and messages.

use std::fmt;

use crate::lower::kernel::{Branch, Into, Matrix, Place};
use crate::lower::{Kernel, Stream};
use crate::program::Cause;
use crate::program::instruction::{Owned, Part, Task};

/// `name`, and in brackets what tells it from others of that name.
fn with(name: &str, detail: impl fmt::Display) -> String {
    format!("{name} ({detail})")
}

/// What a kernel is called.
pub fn kernel(kernel: Kernel) -> String {
    let name = match kernel {
        Kernel::Planned => "planned",
        Kernel::Collective => "collective",
        Kernel::GatherStatistics => "gather statistics",
        Kernel::ToHeads { packed } => return with("to heads", format_args!("packed: {packed}")),
        Kernel::ToTokens { packed } => return with("to tokens", format_args!("packed: {packed}")),
        Kernel::Embed => "embed",
        Kernel::AddPositions => "add positions",
        Kernel::EmbedGradient => "embed gradient",
        Kernel::Norm(at) => return with("norm", place(at)),
        Kernel::NormGradient(at, into) => {
            return with("norm gradient", format_args!("{}, {}", place(at), write(into)));
        }
        Kernel::NormWeight(at) => return with("norm weight", place(at)),
        Kernel::Linear(of) => return with("linear", matrix(of)),
        Kernel::InputGradient(of, into) => {
            return with("input gradient", format_args!("{}, {}", matrix(of), write(into)));
        }
        Kernel::WeightGradient(of) => return with("weight gradient", matrix(of)),
        Kernel::Rotary => "rotary",
        Kernel::RotaryGradient => "rotary gradient",
        Kernel::PackKeysValues => "pack keys values",
        Kernel::UnpackKeysValues => "unpack keys values",
        Kernel::Attention { ring } => return with("attention", format_args!("ring: {ring}")),
        Kernel::AttentionGradient { ring } => {
            return with("attention gradient", format_args!("ring: {ring}"));
        }
        Kernel::Activation => "activation",
        Kernel::ActivationGradient => "activation gradient",
        Kernel::Residual(of) => return with("residual", branch(of)),
        Kernel::BranchGradient(of) => return with("branch gradient", branch(of)),
        Kernel::Dropout => "dropout",
        Kernel::DropoutGradient => "dropout gradient",
        Kernel::Permute => "permute",
        Kernel::Combine => "combine",
        Kernel::CombineGradient => "combine gradient",
        Kernel::PermuteGradient => "permute gradient",
        Kernel::ExpertActivation => "expert activation",
        Kernel::ExpertActivationGradient => "expert activation gradient",
        Kernel::CrossEntropy { chunk, chunks } => return with("cross entropy", of(chunk, chunks)),
        Kernel::Loss => "loss",
        Kernel::CrossEntropyGradient { chunk, chunks } => {
            return with("cross entropy gradient", of(chunk, chunks));
        }
        Kernel::SquaredError => "squared error",
        Kernel::SquaredErrorGradient => "squared error gradient",
        Kernel::Add => "add",
        Kernel::Copy => "copy",
        Kernel::Zero => "zero",
        Kernel::Quantise => "quantise",
        Kernel::Dequantise => "dequantise",
    };
    name.to_owned()
}

fn of(chunk: u16, chunks: u16) -> String {
    format!("chunk: {chunk}, chunks: {chunks}")
}

const fn place(place: Place) -> &'static str {
    match place {
        Place::Input => "input",
        Place::Output => "output",
        Place::Residual => "residual",
    }
}

const fn write(into: Into) -> &'static str {
    match into {
        Into::Set => "set",
        Into::Add => "add",
    }
}

const fn branch(branch: Branch) -> &'static str {
    match branch {
        Branch::Attention => "attention",
        Branch::Mlp => "mlp",
        Branch::Moe => "moe",
    }
}

fn matrix(matrix: Matrix) -> String {
    let name = match matrix {
        Matrix::QueryKeyValue => "query key value",
        Matrix::AttentionOutput => "attention output",
        Matrix::Gate => "gate",
        Matrix::Up => "up",
        Matrix::Down => "down",
        Matrix::Router => "router",
        Matrix::ExpertGate => "expert gate",
        Matrix::ExpertUp => "expert up",
        Matrix::ExpertDown => "expert down",
        Matrix::SharedUp => "shared up",
        Matrix::SharedDown => "shared down",
        Matrix::Vocabulary { chunk, chunks } => return with("vocabulary", of(chunk, chunks)),
    };
    name.to_owned()
}

const fn part(part: Part) -> &'static str {
    match part {
        Part::Dense => "dense",
        Part::Expert => "expert",
    }
}

/// What a task is called.
pub fn task(task: Task) -> String {
    let watched = |name, watch| with(name, format_args!("watch: {watch}"));
    let loss_of = |name, loss| with(name, format_args!("loss: {loss}"));
    let name = match task {
        Task::Nothing => "nothing",
        Task::Kernel { kernel: this, .. } => return kernel(this),
        Task::Send => "send",
        Task::Receive => "receive",
        Task::FetchParameters => "fetch parameters",
        Task::GatherParameters(of) => return with("gather parameters", part(of)),
        Task::ReduceGradient(of) => return with("reduce gradient", part(of)),
        Task::KeepGradient { starts } => return with("keep gradient", format_args!("starts: {starts}")),
        Task::StashActivations => "stash activations",
        Task::UnstashActivations => "unstash activations",
        Task::CopyWatched { watch } => return watched("copy watched", watch),
        Task::SumWatched { watch, part: of } => {
            return with("sum watched", format_args!("watch: {watch}, part: {}", part(of)));
        }
        Task::SumWatchedPartial { watch } => return watched("sum watched partial", watch),
        Task::WatchedSquares { watch } => return watched("watched squares", watch),
        Task::SumWatchedSquares { watch } => return watched("sum watched squares", watch),
        Task::LossWeight { loss } => return loss_of("loss weight", loss),
        Task::WeighGradient { loss } => return loss_of("weigh gradient", loss),
        Task::WeighFlow { loss } => return loss_of("weigh flow", loss),
        Task::AddGradient { loss, starts } => {
            return with("add gradient", format_args!("loss: {loss}, starts: {starts}"));
        }
        Task::SumReplicas(of) => return with("sum replicas", part(of)),
        Task::SumPartial => "sum partial",
        Task::SumTied => "sum tied",
        Task::GradientSquares => "gradient squares",
        Task::SumSquares => "sum squares",
        Task::ClipFactor => "clip factor",
        Task::CopyScalars => "copy scalars",
        Task::HostGradients(owned) => return owned_of("host gradients", owned),
        Task::HostStep(owned) => return owned_of("host step", owned),
        Task::HostParameters(owned) => return owned_of("host parameters", owned),
        Task::LoadParameters(owned) => return owned_of("load parameters", owned),
        Task::DeviceStep(owned) => return owned_of("device step", owned),
        Task::StoreParameters(owned) => return owned_of("store parameters", owned),
        Task::GatherUpdated(of) => return with("gather updated", part(of)),
        Task::FreeSent => "free sent",
    };
    name.to_owned()
}

fn owned_of(name: &str, owned: Owned) -> String {
    with(name, format_args!("owned (start: {}, end: {})", owned.start, owned.end))
}

/// What a stream is called.
pub const fn stream(stream: Stream) -> &'static str {
    match stream {
        Stream::Compute => "compute",
        Stream::Model => "model",
        Stream::Data => "data",
        Stream::Send => "send",
        Stream::Receive => "receive",
        Stream::CopyOut => "copy out",
        Stream::CopyIn => "copy in",
        Stream::Host => "host",
    }
}

/// What an instruction's time is put down to.
pub const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Optimizer => "optimizer",
        Cause::Recompute => "recompute",
        Cause::Compute => "compute",
        Cause::Communication => "communication",
        Cause::Copy => "copy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_kernels_and_tasks_apart_is_in_brackets() {
        assert_eq!(kernel(Kernel::NormGradient(Place::Input, Into::Set)), "norm gradient (input, set)");
        assert_eq!(kernel(Kernel::Attention { ring: 0 }), "attention (ring: 0)");
        let head = Kernel::WeightGradient(Matrix::Vocabulary { chunk: 1, chunks: 4 });
        assert_eq!(kernel(head), "weight gradient (vocabulary (chunk: 1, chunks: 4))");
        assert_eq!(task(Task::GradientSquares), "gradient squares");
        let owned = Owned { start: 3, end: 9 };
        assert_eq!(task(Task::DeviceStep(owned)), "device step (owned (start: 3, end: 9))");
    }
}
