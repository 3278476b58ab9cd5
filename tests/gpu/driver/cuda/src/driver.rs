//! The state of the driver: what programs have made, by handles that are never given twice.

use crate::capture::Capture;
use crate::clock::Clock;
use crate::failure::{Answer, Error, refuse};
use crate::graph::{Executable, Graph};
use crate::history::History;
use crate::kernel::{Function, Module};
use crate::library::Library;
use crate::memory::Memory;
use crate::nccl::Nccl;
use crate::settings::Settings;
use crate::spoil::Spoil;
use crate::stream::{Event, Stream};
use crate::submit::Declared;
use gpu::compare::Random;
use gpu::{Emulator, Order};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::sync::Arc;

/// A handle as programs hold it.
pub type Handle = *mut c_void;

/// The emulator, used by one thread at a time: whoever holds the driver's lock.
pub struct Device(pub Emulator);

// SAFETY: its pointers lead to its own memory, and threads of kernels run within one call.
unsafe impl Send for Device {}

/// The primary context of a device.
#[derive(Default)]
pub struct Context {
    /// How often it has been retained and not released.
    pub holders: u32,
    /// The devices whose memory its kernels may touch, beside its own.
    pub peers: BTreeSet<usize>,
    /// Its default stream.
    pub default_stream: u64,
}

pub struct Driver {
    pub settings: Settings,
    pub initialised: bool,
    /// The code that every further call gives.
    pub broken: Option<u32>,
    /// What the call that is made does wrong, until it has been done.
    pub spoil: Option<Spoil>,
    pub device: Device,
    /// One a device.
    pub contexts: Vec<Context>,
    pub memory: Memory,
    pub history: History,
    pub streams: BTreeMap<u64, Stream>,
    pub events: BTreeMap<u64, Event>,
    pub modules: BTreeMap<u64, Module>,
    pub functions: BTreeMap<u64, Function>,
    pub captures: BTreeMap<u64, Capture>,
    pub graphs: BTreeMap<u64, Graph>,
    pub executables: BTreeMap<u64, Executable>,
    pub library: Library,
    pub nccl: Nccl,
    /// What the next work of a stream may touch, by the stream's handle.
    pub declared: HashMap<u64, Declared>,
    /// What the host has waited for. All of its threads are one: the driver doesn't see how they wait for each other.
    pub host: Arc<Clock>,
    pub random: Random,
    /// The host's own lane.
    pub host_lane: usize,
    lanes: usize,
    handles: u64,
}

thread_local! {
    /// The devices whose contexts this thread has pushed; the last is current.
    static CURRENT: RefCell<Vec<Option<usize>>> = const { RefCell::new(vec![]) };
}

/// Handles of contexts are this and the device's number.
const CONTEXT: u64 = 0x100;

impl Driver {
    pub fn new() -> Driver {
        let settings = Settings::from_environment();
        let mut driver = Driver {
            device: Device(Emulator::new(Order::Forward, settings.checking)),
            random: Random(settings.seed),
            settings,
            initialised: false,
            broken: None,
            spoil: None,
            contexts: vec![],
            memory: Memory::default(),
            history: History::default(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            library: Library::default(),
            nccl: Nccl::default(),
            declared: HashMap::new(),
            host: Arc::default(),
            host_lane: 0,
            lanes: 1,
            handles: 0x1000,
        };
        for device in 0..driver.settings.devices {
            let name = format!("the default stream of device {device}");
            let default_stream = driver.add_stream(name, device, true, 0);
            driver.contexts.push(Context { default_stream, ..Context::default() });
        }
        driver
    }

    pub fn handle(&mut self) -> u64 {
        self.handles += 0x10;
        self.handles
    }

    /// Another entry of the clocks.
    pub fn lane(&mut self) -> usize {
        self.lanes += 1;
        self.lanes - 1
    }

    /// The device of the thread's context.
    pub fn current(&self) -> Answer<usize> {
        match current() {
            Some(device) if self.contexts[device].holders > 0 => Ok(device),
            Some(_) => Err(Error::CUDA_ERROR_CONTEXT_IS_DESTROYED.into()),
            None => Err(Error::CUDA_ERROR_INVALID_CONTEXT.into()),
        }
    }

    /// The device with this number.
    pub fn ordinal(&self, device: i32) -> Answer<usize> {
        let number = usize::try_from(device).ok().filter(|&device| device < self.settings.devices);
        number.ok_or_else(|| Error::CUDA_ERROR_INVALID_DEVICE.into())
    }

    /// The device of a context's handle; none for the null context.
    pub fn context(&self, handle: Handle) -> Answer<Option<usize>> {
        if handle.is_null() {
            return Ok(None);
        }
        match (handle as u64).checked_sub(CONTEXT) {
            Some(device) if (device as usize) < self.contexts.len() => Ok(Some(device as usize)),
            _ => refuse(Error::CUDA_ERROR_INVALID_CONTEXT, format!("{handle:?} is no context")),
        }
    }
}

pub fn context_handle(device: Option<usize>) -> Handle {
    device.map_or(0, |device| CONTEXT + device as u64) as Handle
}

pub fn current() -> Option<usize> {
    CURRENT.with_borrow(|contexts| contexts.last().copied().flatten())
}

pub fn set_current(device: Option<usize>) {
    CURRENT.with_borrow_mut(|contexts| {
        contexts.pop();
        contexts.push(device);
    });
}

pub fn push_current(device: Option<usize>) {
    CURRENT.with_borrow_mut(|contexts| contexts.push(device));
}

pub fn pop_current() -> Option<Option<usize>> {
    CURRENT.with_borrow_mut(Vec::pop)
}
