//! Members of a communicator: processes of this program, started by one that waits for them.

use super::{Config, Handle, Id, nccl, ok};
use crate::setup::text;
use cudarc::driver::{CudaContext, CudaStream, result};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many communicators the members of a program may have.
pub const IDS: usize = 2;
/// All is over by then.
const PATIENCE: Duration = Duration::from_secs(100);

pub struct Member {
    pub rank: usize,
    pub size: usize,
    pub ids: [Id; IDS],
    /// Of the program's own, the same for all.
    pub folder: PathBuf,
    pub context: Arc<CudaContext>,
    pub stream: Arc<CudaStream>,
}

type Body = fn(&Member) -> Result<(), String>;

/// Does the same in as many processes as each of these says, one number after the other.
pub fn in_members(sizes: &[usize], body: Body) -> Result<(), String> {
    in_members_with(sizes, |_, _| {}, body)
}

/// The same with something of its own for each rank.
pub fn in_members_with(sizes: &[usize], set: impl Fn(usize, &mut Command), body: Body) -> Result<(), String> {
    if let Ok(rank) = std::env::var("MEMBER_RANK") {
        return body(&Member::new(rank.parse().map_err(text)?)?);
    }
    sizes.iter().try_for_each(|&size| start(size, &set).map_err(|error| format!("{size} members: {error}")))
}

fn start(size: usize, set: &impl Fn(usize, &mut Command)) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let shared = tempfile::tempdir().map_err(text)?;
    let mut ids = vec![];
    for _ in 0..IDS {
        let mut id = Id([0; 128]);
        ok("ncclGetUniqueId", unsafe { (nccl().unique_id)(&mut id) })?;
        ids.push(id.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    let mut children: Vec<Child> = vec![];
    for rank in 0..size {
        let mut command = Command::new(std::env::current_exe().map_err(text)?);
        command.args(std::env::args().skip(1));
        command.env("MEMBER_RANK", rank.to_string()).env("MEMBER_SIZE", size.to_string());
        command.env("MEMBER_IDS", ids.join(",")).env("MEMBER_FOLDER", folder.path());
        command.env("FAKE_NCCL_FOLDER", shared.path());
        set(rank, &mut command);
        children.push(command.spawn().map_err(text)?);
    }
    let ended = wait(&mut children);
    let left: Vec<_> = std::fs::read_dir(shared.path()).map_err(text)?.collect();
    match left.is_empty() {
        true => ended,
        false => ended.and(Err(format!("{left:?} is left"))),
    }
}

/// All must end, and well.
fn wait(children: &mut [Child]) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    let mut result = Ok(());
    for (rank, child) in children.iter_mut().enumerate() {
        let ended = loop {
            match child.try_wait().map_err(text)? {
                Some(status) if status.success() => break Ok(()),
                Some(status) => break Err(format!("rank {rank} ends with {status}")),
                None if Instant::now() > until => break Err(format!("rank {rank} doesn't end")),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        result = result.and(ended);
    }
    // Those that have ended can't be ended again.
    children.iter_mut().for_each(|child| drop(child.kill()));
    result
}

impl Member {
    fn new(rank: usize) -> Result<Member, String> {
        let context = CudaContext::new(0).map_err(text)?;
        unsafe { context.disable_event_tracking() };
        let set = |name: &str| std::env::var(name).map_err(|_| format!("{name} isn't set"));
        let mut ids = [Id([0; 128]); IDS];
        for (id, hex) in ids.iter_mut().zip(set("MEMBER_IDS")?.split(',')) {
            for (at, byte) in id.0.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&hex[2 * at..][..2], 16).map_err(text)?;
            }
        }
        let size = set("MEMBER_SIZE")?.parse().map_err(text)?;
        let stream = context.new_stream().map_err(text)?;
        Ok(Member { rank, size, ids, folder: set("MEMBER_FOLDER")?.into(), context, stream })
    }

    /// Comes to the communicator of this number, and waits for the others.
    pub fn come(&self, number: usize) -> Result<Handle, String> {
        let mut communicator = std::ptr::null_mut();
        let config = Config::new(1);
        let (size, rank) = (self.size as i32, self.rank as i32);
        let code = unsafe { (nccl().init)(&mut communicator, size, self.ids[number], rank, &config) };
        ok("ncclCommInitRankConfig", code)?;
        Ok(communicator)
    }

    pub fn stream(&self) -> Handle {
        self.stream.cu_stream().cast()
    }

    pub fn synchronise(&self) -> Result<(), String> {
        self.stream.synchronize().map_err(text)
    }

    /// Device memory with these bytes.
    pub fn upload(&self, bytes: &[u8]) -> Result<u64, String> {
        let memory = unsafe { result::malloc_sync(bytes.len().max(1)) }.map_err(text)?;
        unsafe { result::memcpy_htod_sync(memory, bytes) }.map_err(text)?;
        self.context.synchronize().map_err(text)?;
        Ok(memory)
    }

    /// The bytes of device memory after all that the stream was given.
    pub fn download(&self, memory: u64, bytes: usize) -> Result<Vec<u8>, String> {
        self.synchronise()?;
        let mut found = vec![0u8; bytes];
        unsafe { result::memcpy_dtoh_sync(&mut found, memory) }.map_err(text)?;
        Ok(found)
    }

    /// Tells the others of something.
    pub fn tell(&self, what: &str) -> Result<(), String> {
        std::fs::write(self.folder.join(what), "").map_err(text)
    }

    /// Waits until another has told of it, by files and not by NCCL.
    pub fn hear(&self, what: &str) -> Result<(), String> {
        let until = Instant::now() + PATIENCE / 2;
        while !self.folder.join(what).exists() {
            if Instant::now() > until {
                return Err(format!("nobody tells of `{what}`"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
