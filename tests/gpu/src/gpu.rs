//! The device that the cases see, whichever backend runs them.

use crate::compiler::Compiler;
use crate::emulator::{Counted, Emulator};
use crate::fault::{Fault, fault};
use crate::launch::{Launch, Source};
use crate::plain::{self, Plain};
use crate::real::Real;
use std::collections::{HashMap, HashSet};

/// A compiled source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Module(pub(crate) usize);

/// A range of device memory that lives as long as its case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer(pub(crate) usize);

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    Buffer(Buffer),
    /// A pointer to the byte at this offset of a buffer: nothing before it may be touched.
    Part(Buffer, u64),
    U32(u32),
    I32(i32),
    U64(u64),
    F32(f32),
    F64(f64),
}

/// In which order the emulator takes blocks, warps and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Forward,
    Reversed,
    /// Seeded: the same every time.
    Random,
}

enum Backend {
    Emulated(Box<Emulator>),
    Real(Real),
}

/// A device: compiles, keeps buffers, launches.
pub struct Gpu {
    compiler: Compiler,
    backend: Backend,
    loaded: HashMap<(String, Vec<String>), Module>,
    downloads: Vec<Vec<u8>>,
    /// The modules and kernels that have been launched.
    launched: HashSet<(Module, &'static str)>,
    /// The first downloaded byte that no kernel wrote, in words.
    unwritten: Option<String>,
}

impl Gpu {
    /// The emulator; `checking` looks for uninitialised reads and races, bounds are always looked at.
    pub fn emulated(order: Order, checking: bool) -> Gpu {
        Gpu::with(Backend::Emulated(Box::new(Emulator::new(order, checking))), None)
    }

    /// An emulator that counts what launches move and compute.
    pub fn counting() -> Gpu {
        Gpu::with(Backend::Emulated(Box::new(Emulator::counting())), None)
    }

    /// The first GPU of this machine.
    pub fn real() -> Result<Gpu, Fault> {
        let real = Real::open()?;
        let driver = real.driver()?;
        Ok(Gpu::with(Backend::Real(real), Some(driver)))
    }

    fn with(backend: Backend, driver: Option<i32>) -> Gpu {
        Gpu {
            compiler: Compiler::new(driver),
            backend,
            loaded: HashMap::new(),
            downloads: vec![],
            launched: HashSet::new(),
            unwritten: None,
        }
    }

    pub fn is_real(&self) -> bool {
        matches!(self.backend, Backend::Real(_))
    }

    /// The files and kernels that have been launched.
    pub fn launched(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.loaded.iter().flat_map(|((file, _), module)| {
            let of_module = self.launched.iter().filter(move |(of, _)| of == module);
            of_module.map(|(_, kernel)| (file.as_str(), *kernel))
        })
    }

    /// What the device is called.
    pub fn name(&self) -> String {
        match &self.backend {
            Backend::Emulated(_) => "emulator".into(),
            Backend::Real(real) => real.name().into(),
        }
    }

    /// Frees all buffers and forgets the downloads; compiled modules stay. A real device takes no order.
    pub fn restart(&mut self, order: Order, checking: bool) -> Result<(), Fault> {
        self.downloads.clear();
        self.unwritten = None;
        match &mut self.backend {
            Backend::Emulated(emulator) => {
                emulator.restart(order, checking);
                Ok(())
            }
            Backend::Real(real) => real.restart(),
        }
    }

    /// What was downloaded although nothing had written it, since the last restart. Only a checking emulator knows.
    pub fn unwritten(&mut self) -> Option<String> {
        self.unwritten.take()
    }

    /// All that has been downloaded since the last restart.
    pub fn downloads(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.downloads)
    }

    /// Compiles `src/execute/kernels/FILE` with options such as `-DSTORAGE_BF16`; remembered by file and options.
    pub fn load(&mut self, file: &str, options: &[&str]) -> Result<Module, Fault> {
        if let Some(&module) = self.loaded.get(&key(file, options)) {
            return Ok(module);
        }
        self.load_text(file, Compiler::source(file)?, options)
    }

    /// The same for what the launch geometry says.
    pub fn load_source(&mut self, source: &Source) -> Result<Module, Fault> {
        let options: Vec<&str> = source.options.iter().map(String::as_str).collect();
        self.load(source.file, &options)
    }

    /// The same for a source that isn't among the kernels; a name stands for one text.
    pub fn load_text(&mut self, name: &str, source: &str, options: &[&str]) -> Result<Module, Fault> {
        let key = key(name, options);
        if let Some(&module) = self.loaded.get(&key) {
            return Ok(module);
        }
        let ptx = self.compiler.portable(name, source, &key.1)?;
        let number = match &mut self.backend {
            Backend::Emulated(emulator) => {
                emulator.load(&ptx).map_err(|fault| Fault(format!("{name} {options:?}: {fault}")))?
            }
            Backend::Real(real) => {
                let code = self.compiler.machine(name, source, &key.1, real.capability())?;
                real.load(&ptx, &code)?
            }
        };
        self.loaded.insert(key, Module(number));
        Ok(Module(number))
    }

    pub fn upload<T: Plain>(&mut self, values: &[T]) -> Buffer {
        let bytes = plain::to_bytes(values);
        Buffer(match &mut self.backend {
            Backend::Emulated(emulator) => emulator.add(Some(bytes), 0, T::BYTES),
            Backend::Real(real) => real.add(&bytes),
        })
    }

    /// Memory that a kernel must write before anything reads it; it holds NaNs.
    pub fn uninitialised<T: Plain>(&mut self, count: usize) -> Buffer {
        let length = count * T::BYTES;
        Buffer(match &mut self.backend {
            Backend::Emulated(emulator) => emulator.add(None, length, T::BYTES),
            Backend::Real(real) => real.add(&plain::unwritten(length)),
        })
    }

    pub fn download<T: Plain>(&mut self, buffer: Buffer) -> Vec<T> {
        let bytes = match &mut self.backend {
            Backend::Emulated(emulator) => {
                if let Some(at) = emulator.unwritten(buffer.0) {
                    let text = || format!("byte {at} of a buffer that is read back was never written");
                    self.unwritten.get_or_insert_with(text);
                }
                emulator.download(buffer.0)
            }
            Backend::Real(real) => real.download(buffer.0),
        };
        let values = plain::from_bytes(&bytes);
        self.downloads.push(bytes);
        values
    }

    /// Runs the kernel and waits for its end.
    pub fn launch(&mut self, module: Module, launch: &Launch, arguments: &[Argument]) -> Result<(), Fault> {
        self.launched.insert((module, launch.kernel));
        match &mut self.backend {
            Backend::Emulated(emulator) => emulator.launch(module.0, launch, arguments),
            Backend::Real(real) => real.launch(module.0, launch, arguments),
        }
    }

    /// Runs the kernel on an emulator that counts, and says what it has moved and computed.
    pub fn counted(
        &mut self,
        module: Module,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<Counted, Fault> {
        match &mut self.backend {
            Backend::Emulated(emulator) => emulator.counted(module.0, launch, arguments),
            Backend::Real(_) => fault("a real GPU counts nothing"),
        }
    }

    /// The time of one launch in seconds, averaged over `repeats`; none on the emulator.
    pub fn time(
        &mut self,
        module: Module,
        launch: &Launch,
        arguments: &[Argument],
        repeats: u32,
    ) -> Result<Option<f64>, Fault> {
        match &mut self.backend {
            Backend::Emulated(_) => Ok(None),
            Backend::Real(real) => real.time(module.0, launch, arguments, repeats).map(Some),
        }
    }
}

fn key(file: &str, options: &[&str]) -> (String, Vec<String>) {
    (file.to_owned(), options.iter().map(|option| (*option).to_owned()).collect())
}
