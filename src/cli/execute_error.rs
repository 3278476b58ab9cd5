//! What a run's failures are to the command line.

use super::error::{CliError, Kind, shown};
use crate::execute::data::DataError;
#[cfg(unix)]
use crate::execute::device::cuda::error::CudaError;
use crate::execute::error::ExecuteError;
use crate::execute::weights::WeightsError;

impl From<ExecuteError> for CliError {
    fn from(error: ExecuteError) -> Self {
        let mut message = error.to_string();
        if matches!(error, ExecuteError::Memory { .. } | ExecuteError::MemoryOfOne { .. }) {
            message += "; --dry-run counts it without taking it";
        }
        let (kind, field, value, nearest) = match error {
            ExecuteError::Job(failure) => return Self::of_job(&failure),
            ExecuteError::Communication(_) | ExecuteError::Program(_) | ExecuteError::NoGradients => {
                (Kind::Run, "run", String::new(), Vec::new())
            }
            ExecuteError::Rank { rank, .. }
            | ExecuteError::Missing { rank, .. }
            | ExecuteError::Operand { rank, .. }
            | ExecuteError::Shape { rank, .. }
            | ExecuteError::State { rank, .. } => (Kind::Run, "rank", rank.to_string(), Vec::new()),
            ExecuteError::NotFinite { layer, .. } => (Kind::Run, "loss", layer, Vec::new()),
            ExecuteError::Unsupported(what) => (Kind::Illegal, "plan", what, Vec::new()),
            ExecuteError::NoSuchRank { rank, last } => {
                (Kind::Input, "slice", rank.to_string(), vec![last.to_string()])
            }
            ExecuteError::Memory { extent, beside, available, .. }
            | ExecuteError::MemoryOfOne { extent, beside, available, .. } => {
                (Kind::Infeasible, "memory", (extent + beside).0.to_string(), vec![available.0.to_string()])
            }
            ExecuteError::Arena { bytes, .. } => {
                (Kind::Infeasible, "memory", bytes.0.to_string(), Vec::new())
            }
            ExecuteError::Threads { threads, .. } => (Kind::Run, "threads", threads.to_string(), Vec::new()),
            #[cfg(unix)]
            ExecuteError::Cuda(error) => match *error {
                CudaError::Memory { asked, free, .. } => {
                    (Kind::Infeasible, "memory", asked.0.to_string(), vec![free.0.to_string()])
                }
                CudaError::Full { action, free } => {
                    let free = free.into_iter().map(|free| free.0.to_string()).collect();
                    (Kind::Infeasible, "memory", action, free)
                }
                CudaError::Unpinned { asked } => {
                    (Kind::Infeasible, "memory", asked.0.to_string(), Vec::new())
                }
                CudaError::Unsupported(what) => (Kind::Illegal, "plan", what, Vec::new()),
                CudaError::NoDriver
                | CudaError::Stub
                | CudaError::NoDevice
                | CudaError::OldDriver { .. }
                | CudaError::OldDevice { .. } => {
                    (Kind::Run, "device", "cuda".to_owned(), vec!["cpu".to_owned()])
                }
                CudaError::FewDevices { ranks, .. } => {
                    (Kind::Run, "device", ranks.to_string(), vec!["share-device".to_owned()])
                }
                _ => (Kind::Run, "device", "cuda".to_owned(), Vec::new()),
            },
            ExecuteError::Data(error) => return error.into(),
            ExecuteError::Weights(WeightsError::Unwritable { path, .. }) => {
                (Kind::Output, "save", path, Vec::new())
            }
            ExecuteError::Weights(WeightsError::NotFinite { name, .. }) => {
                (Kind::Run, "weights", name, Vec::new())
            }
            ExecuteError::Weights(WeightsError::NoRoom { path, .. }) => {
                (Kind::Infeasible, "memory", path, Vec::new())
            }
            ExecuteError::Weights(error) => (Kind::Input, "init", error.value().to_owned(), Vec::new()),
            ExecuteError::UnwrittenGradients { path, .. } => (Kind::Output, "grads-out", path, Vec::new()),
            ExecuteError::FrozenParameter { name } => (Kind::Input, "grads", name, Vec::new()),
            ExecuteError::UnknownParameter { name, nearest } => (Kind::Input, "grads", name, vec![nearest]),
        };
        Self { kind, field: field.to_owned(), value: shown(&value), message, nearest }
    }
}

impl From<DataError> for CliError {
    fn from(error: DataError) -> Self {
        let (field, value, nearest) = match &error {
            DataError::Format { value } => {
                let formats = ["text", "u16", "llmc"].map(str::to_owned);
                ("data-format", value.clone(), formats.to_vec())
            }
            DataError::Unreadable { path, .. }
            | DataError::OddLength { path, .. }
            | DataError::NoHeader { path, .. }
            | DataError::Header { path, .. } => ("data", path.display().to_string(), Vec::new()),
            DataError::Token { token, vocabulary, .. } => {
                ("data", token.to_string(), vec![vocabulary.saturating_sub(1).to_string()])
            }
            DataError::TooShort { tokens, needed, .. } => {
                ("data", tokens.to_string(), vec![needed.to_string()])
            }
            DataError::Share { global_batch, .. } => ("global-batch", global_batch.to_string(), Vec::new()),
            DataError::SequenceLength { value } => ("seq-len", value.to_string(), Vec::new()),
            DataError::Vocabulary { vocabulary } => ("model", vocabulary.to_string(), Vec::new()),
        };
        let kind = if matches!(error, DataError::Format { .. }) { Kind::Usage } else { Kind::Input };
        Self { kind, field: field.to_owned(), value: shown(&value), message: error.to_string(), nearest }
    }
}
