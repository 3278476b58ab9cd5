//! The cost model that `execute` predicts by: this machine's, measured where it is not known yet, or another one.

use std::path::{Path, PathBuf};

use super::document::pretty;
use super::error::{CliError, Kind};
use super::kept::{self, Kept};
use super::output::say;
use super::progress::Bar;
use crate::calibrate::{Effort, calibrate, machine};
use crate::cluster::Cluster;
use crate::files;
use crate::profile::catalog::sha256;
use crate::profile::device::DeviceClass;
use crate::profile::{DeviceModel, ProfileError, device_model, parse_device_model};
use crate::units::FlopsPerSecond;

/// Where the cost model comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// What is kept of this machine's cores; it is measured first where nothing is.
    Machine,
    /// A device that we know, by its name.
    BuiltIn(&'static str),
    File(PathBuf),
}

/// A cost model of what ranks run on.
#[derive(Clone, Debug)]
pub struct CostModel {
    pub model: DeviceModel,
    /// SHA-256 of its text.
    pub hash: String,
}

impl CostModel {
    /// As many ranks as devices of `like`: cores are those of one machine, GPUs in nodes as they are there.
    pub fn cluster(&self, like: &Cluster) -> Cluster {
        let all = u32::try_from(like.devices()).unwrap_or(u32::MAX);
        let (nodes, ranks, name) = match self.model.class {
            DeviceClass::Cpu => (1, all, "cpu"),
            DeviceClass::Gpu => (like.nodes, like.devices_per_node, self.model.name.as_str()),
        };
        let name = format!("{nodes}x{ranks}x{name}");
        Cluster::uniform(name, nodes, ranks, self.model.clone(), self.hash.clone())
    }

    /// Speed of the fixed kernel when it was measured.
    pub fn fixed_kernel(&self) -> Option<FlopsPerSecond> {
        self.model.machine.as_ref().map(|machine| machine.fixed_kernel.value)
    }
}

impl Source {
    /// The cost model of devices of `class`. Measuring, and whatever is odd about what was kept, is said on stderr.
    ///
    /// # Errors
    /// If the file that was named cannot be used, or this machine cannot be measured.
    pub fn load(&self, class: DeviceClass) -> Result<CostModel, CliError> {
        match self {
            Self::Machine => of_machine(),
            Self::BuiltIn(name) => {
                say(&format!("the built-in cost model {name} predicts, which knows nothing of this machine"));
                let (model, hash) = device_model(name).map_err(|error| refused(name, &error))?;
                Ok(CostModel { model, hash })
            }
            Self::File(path) => of_file(path, class),
        }
    }
}

fn of_machine() -> Result<CostModel, CliError> {
    let (folder, key) = (kept::folder(), machine::key());
    match folder.as_deref().map_or(Kept::Nothing, |folder| kept::read(folder, &key)) {
        Kept::Model(model, hash) => return Ok(CostModel { model: *model, hash }),
        Kept::Nothing => say("measuring this machine once, a few seconds (--no-calibrate leaves it out)"),
        Kept::Unusable(reason) => {
            say(&format!("the kept cost model of this machine cannot be used ({reason}); measuring it anew"));
        }
    }
    let bar = Bar::new(true);
    let calibration = calibrate(Effort::Quick, &|part, share| bar.next(part, share));
    bar.clear();
    let calibration = calibration?;
    let text = pretty(&calibration.model);
    say(&match folder.map(|folder| kept::write(&folder, &key, &text)) {
        Some(Ok(path)) => format!("measured in {:.1} s; kept in {}", calibration.seconds, path.display()),
        Some(Err(error)) => format!("the cost model is not kept: {}", error.message),
        None => format!("the cost model is not kept: {} names no folder for it", kept::VARIABLE),
    });
    Ok(CostModel { model: calibration.model, hash: sha256(&text) })
}

fn of_file(path: &Path, class: DeviceClass) -> Result<CostModel, CliError> {
    let shown = path.display().to_string();
    let text = files::text(path, kept::LARGEST_FILE).map_err(|unread| {
        let message = format!("{shown} cannot be read: {unread}");
        CliError { kind: Kind::Input, message, ..CliError::usage("cost-model", &shown, "") }
    })?;
    let model = parse_device_model(&text).map_err(|error| error.in_file(&shown));
    let (model, hash) = model.map_err(|error| refused(&shown, &error))?;
    if model.class != class {
        let (found, needed, run_on) = match class {
            DeviceClass::Cpu => ("gpu", "cpu", "CPUs here (--device cuda is for a GPU)"),
            DeviceClass::Gpu => ("cpu", "gpu", "a GPU"),
        };
        let name = &model.name;
        let message =
            format!("{shown}: class of {name} is {found}; ranks run on {run_on}, so {needed} is needed");
        let error = CliError { kind: Kind::Input, message, ..CliError::usage("class", found, "") };
        return Err(error.or([needed]));
    }
    Ok(CostModel { model, hash })
}

/// The error that the cost model in `file` cannot be used: its field and value.
fn refused(file: &str, error: &ProfileError) -> CliError {
    let message = format!("{file}: {error}");
    CliError { kind: Kind::Input, message, ..CliError::usage(error.field(), &error.value(), "") }
        .or(error.nearest())
}
