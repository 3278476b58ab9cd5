//! `execute` where a launcher started a process for each rank: they join, one speaks for all, and all end alike.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::error::{CliError, Kind};
use super::execute_args::ExecuteArgs;
use super::execute_plan::{Changes, Planned};
use super::{execute, interrupt, output, parent, progress};
use crate::execute::error::ExecuteError;
use crate::execute::fleet::StepResult;
use crate::execute::observe::observer::Observer;
use crate::execute::run::{DeviceKind, Job, Settings};
use crate::execute::session::DataRequest;
use crate::execute::world::control::{JobFailure, OnFailure};
use crate::execute::world::error::WorldError;
use crate::execute::world::identity::{self, Identity};
use crate::execute::world::join::{DataBy, join};
use crate::execute::world::launcher::{self, Launched, ProcessManager};
use crate::execute::world::{World, cores};
use crate::strategy::Draft;

/// This process knows why the job failed, and is about to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Time for mpirun to notice that a host is lost: it takes 11 seconds as `--launch` starts it.
const LINGERING: Duration = Duration::from_secs(15);

/// Time for the rank that speaks in place of rank 0 to find rank 0 gone: two beats.
const SPEAKING: Duration = Duration::from_secs(2);

/// Errors are printed as JSON too.
static JSON: AtomicBool = AtomicBool::new(false);

/// The rank and launcher of this process; none if it is alone.
///
/// # Errors
/// If the launcher's variables contradict one another.
pub fn launched() -> Result<Option<Launched>, CliError> {
    let variable = |name: &str| std::env::var(name).ok();
    let launched = launcher::launched(&variable, launcher::ancestors()).map_err(WorldError::from)?;
    Ok(launched.filter(|launched| launched.size > 1))
}

/// Whether this process says what is wrong with the command line: all processes of a job were given the same one.
pub fn speaks() -> bool {
    launched().ok().flatten().is_none_or(|launched| launched.rank == 0)
}

/// Runs the command as one of the processes that `launched` is of, on `device`.
pub fn run(args: ExecuteArgs, launched: Launched, device: DeviceKind) -> Result<u8, CliError> {
    JSON.store(args.json, Ordering::Release);
    if launched.launcher == ProcessManager::Torchrun {
        parent::die_with_it();
    }
    let data = if device == DeviceKind::Cpu { DataBy::Mpi } else { DataBy::Devices };
    let joined = match join(launched, data, OnFailure { say, end: last_resort }) {
        Ok(joined) => joined,
        Err(error) => {
            let error = CliError::from(error);
            // There is nobody to agree with: the launcher's first rank speaks.
            if launched.rank == 0 {
                tell(&error);
            }
            exit(error.kind.code());
        }
    };
    let world = joined.world();
    output::hush(!world.is_first());
    interrupt::of_a_job();
    let done = execute::run_in(args, Some(world.clone()));
    let end = |failure: &JobFailure| -> ! {
        ENDS.store(true, Ordering::Release);
        let code = CliError::of_job(failure).kind.code();
        if failure.rank == 0 && failure.is_gone && !world.control().speaks(failure) {
            // The launcher ends all once one has ended, so who speaks in place of rank 0 is given time to learn of it.
            thread::sleep(SPEAKING);
        }
        if launched.launcher == ProcessManager::OpenMpi
            && failure.is_silent
            && failure.host != world.own.host.name
        {
            linger();
        }
        exit(code)
    };
    match done {
        Ok(code) => {
            if let Err(failure) = world.control().leave() {
                end(&failure);
            }
            drop(world);
            joined.end();
            Ok(code)
        }
        Err(error) => {
            let document = serde_json::to_string(&error).unwrap_or_default();
            end(&world.control().fail(&error.message, &document))
        }
    }
}

/// Says why the job failed, for all of its processes.
fn tell(error: &CliError) {
    progress::take_away();
    output::hush(false);
    super::tell(error, JSON.load(Ordering::Acquire));
}

/// Says what `failure` is, whatever else this process is doing.
fn say(failure: &JobFailure) {
    tell(&CliError::of_job(failure));
}

/// Where a host was lost, mpirun learns it by its own keep-alive, and then ends all. Once it has tried to reach that host,
/// because a rank has ended here, it would wait for a quarter of an hour.
fn linger() {
    let began = Instant::now();
    while began.elapsed() < LINGERING && !interrupt::came() {
        thread::sleep(Duration::from_millis(50));
    }
}

/// Ends this process after a failure of the job: nothing is waited for, as others may be gone.
#[cfg(unix)]
fn exit(code: u8) -> ! {
    let _ = std::io::stdout().flush();
    // What libraries would do at the end of a process waits for other processes.
    // SAFETY: the call returns to nobody.
    #[expect(unsafe_code, reason = "the standard library has no end without handlers")]
    unsafe {
        libc::_exit(i32::from(code))
    }
}

#[cfg(not(unix))]
fn exit(code: u8) -> ! {
    std::process::exit(i32::from(code))
}

/// Ends this process if it does not end by itself after a failure.
fn last_resort(failure: &JobFailure) {
    if ENDS.load(Ordering::Acquire) {
        return;
    }
    let _guard = interrupt::hold();
    exit(CliError::of_job(failure).kind.code());
}

/// Plans the small GPT by `plan`: rank 0 chooses the strategy for all.
pub fn quick(
    world: Option<&World>,
    mut changes: Changes,
    plan: impl Fn(Changes) -> Result<Planned, CliError>,
) -> Result<Planned, CliError> {
    let Some(world) = world else { return plan(changes) };
    if world.is_first() {
        let planned = plan(changes)?;
        world.broadcast(Some(&planned.plan.strategy.text)).map_err(ExecuteError::from)?;
        return Ok(planned);
    }
    let text: String = world.broadcast(None).map_err(ExecuteError::from)?;
    changes.strategy = Some(Draft::parse(&text)?);
    plan(changes)
}

/// That all ranks of `world` are about to do the same, and that they are as many as the job has: the settings, with this
/// rank's share of the cores.
pub fn agreed(
    world: &World,
    (job, settings): (&Job, Settings),
    (steps, data): (u64, &DataRequest),
) -> Result<Settings, CliError> {
    let (ranks, size) = (job.strategy.devices(), world.own.size);
    // Rank 0 says it for all; a rank with another plan is named below.
    if ranks != size as u64 && world.is_first() {
        let message = format!(
            "the plan is for {ranks} ranks, and {size} processes were started; start {ranks}, or plan for {size}"
        );
        let (field, value) = ("ranks".to_owned(), size.to_string());
        return Err(CliError {
            kind: Kind::Illegal,
            field,
            value,
            message,
            nearest: vec![ranks.to_string()],
        });
    }
    let what = (&job.model, &job.strategy, job.workload, &job.engine.name, (steps, data));
    let settings_of_all = Settings { cores: 1, ..settings };
    let job = digest(format!("{what:?} {settings_of_all:?}").as_bytes());
    let program = format!("meshwright {} ({})", env!("CARGO_PKG_VERSION"), own_digest());
    let device = format!("{:?}", settings.device).to_lowercase();
    let own = Identity { program, job, device, library: world.library().map(str::to_owned) };
    identity::agree(world, &own).map_err(ExecuteError::from)?;
    let cores = cores::share(world).map_err(ExecuteError::from)?;
    Ok(Settings { cores, ..settings })
}

/// The first digits of the digest of this program's file.
fn own_digest() -> String {
    let file = std::env::current_exe().and_then(std::fs::read);
    file.map_or_else(|_| "unknown".to_owned(), |bytes| digest(&bytes))
}

/// The first digits of the digest of `bytes`: enough to tell two apart.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Follows a run on a rank that says nothing.
pub struct Silent;

impl Observer for Silent {
    fn ready(&mut self, _peak: u64) {}

    fn remark(&mut self, _what: &str) {}

    fn is_asked_to_end(&self) -> bool {
        interrupt::came()
    }

    fn step(&mut self, _result: &StepResult) -> std::ops::ControlFlow<()> {
        std::ops::ControlFlow::Continue(())
    }
}

impl CliError {
    /// What ended a job.
    pub fn of_job(failure: &JobFailure) -> Self {
        let told: Result<Self, _> = serde_json::from_str(&failure.document);
        let mut error = told.unwrap_or_else(|_| Self {
            kind: Kind::Run,
            field: "rank".to_owned(),
            value: failure.rank.to_string(),
            message: failure.message.clone(),
            nearest: Vec::new(),
        });
        if failure.rank > 0 || failure.is_gone {
            error.message = format!("rank {} on host {}: {}", failure.rank, failure.host, error.message);
        }
        error
    }
}

impl From<WorldError> for CliError {
    fn from(error: WorldError) -> Self {
        let message = error.to_string();
        let (kind, field, value, nearest): (_, _, _, Vec<String>) = match error {
            WorldError::Setting(name, value, _) => (Kind::Usage, name, value, Vec::new()),
            WorldError::Launch(_) => (Kind::Input, "launcher", String::new(), Vec::new()),
            WorldError::NotSet(name, _) => (Kind::Input, name, String::new(), Vec::new()),
            WorldError::TorchrunWithoutMpi(launched) => {
                let nearest = ["mpirun", "srun"].map(str::to_owned).to_vec();
                (Kind::Run, "launcher", launched.launcher.to_string(), nearest)
            }
            WorldError::NoMpi(launched)
            | WorldError::NoAddress(launched)
            | WorldError::OtherMpi { launched, .. } => {
                (Kind::Run, "launcher", launched.launcher.to_string(), Vec::new())
            }
            WorldError::Network(_) | WorldError::Connection(_) => {
                (Kind::Run, "run", String::new(), Vec::new())
            }
            WorldError::Missing(ranks) => {
                (Kind::Run, "rank", ranks.first().map(usize::to_string).unwrap_or_default(), Vec::new())
            }
        };
        Self { kind, field: field.to_owned(), value, message, nearest }
    }
}
