//! NVIDIA's run-time compiler: found on the machine, opened by its path, and asked for binaries.
//!
//! The functions are looked up in the very library that was chosen. cudarc's own table would take the first `libnvrtc.so`
//! that the loader knows, whatever folder the user named, and panics where there is none.

#![expect(unsafe_code, reason = "NVRTC is a C library")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use super::error::CompileError;
use super::library::{Library, file_of};
use super::search::{Search, Wanted};

pub const NVRTC: Wanted = Wanted {
    variable: "MESHWRIGHT_NVRTC",
    folder: "cuda_nvrtc",
    wheels: ["nvidia-cuda-nvrtc==13.0.88", "nvidia-cuda-nvrtc-cu12"],
    files: &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
};

/// What NVRTC calls itself. It says no more than this of its release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: i32,
    pub minor: i32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One compilation: everything that its result depends on, but for the compiler.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    pub file: &'p str,
    pub source: &'p str,
    /// What may be included, each by the name that stands in `#include`, and its text.
    pub headers: &'p [(&'p str, &'p str)],
    pub options: &'p [String],
    /// As `sm_90`, which gives a CUBIN; or as `compute_80`, which gives PTX.
    pub architecture: &'p str,
}

/// NVRTC's `nvrtcProgram`.
type Handle = *mut c_void;
type Texts = *const *const c_char;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

#[derive(Clone, Copy, Debug)]
pub struct Nvrtc {
    version: Version,
    create: unsafe extern "C" fn(*mut Handle, *const c_char, *const c_char, c_int, Texts, Texts) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, Texts) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    log: (Size, Bytes),
    cubin: (Size, Bytes),
    ptx: (Size, Bytes),
    architectures: Option<Architectures>,
}

/// How many architectures it compiles for, and which.
type Architectures = (unsafe extern "C" fn(*mut c_int) -> c_int, unsafe extern "C" fn(*mut c_int) -> c_int);

impl Nvrtc {
    /// Opens the first NVRTC of `search` that works.
    ///
    /// # Errors
    /// With all places, and what was wrong with what lay there.
    pub fn find(search: &Search) -> Result<Self, CompileError> {
        let open = |name: &OsStr| {
            let nvrtc = Self::open(name)?;
            search.check(nvrtc.version.major).map(|()| nvrtc)
        };
        let missing = |looked| CompileError::Missing { looked, wheel: search.wheel(&NVRTC) };
        search.first(&NVRTC, open_builtins, open).map_err(missing)
    }

    fn open(name: &OsStr) -> Result<Self, String> {
        // SAFETY: NVRTC may be initialised at any time, and the types are those of its header.
        unsafe {
            let library = Library::open(name)?;
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
                library.function(c"nvrtcVersion")?;
            let (mut major, mut minor) = (0, 0);
            if version(&raw mut major, &raw mut minor) != 0 {
                return Err(String::from("it does not tell its version"));
            }
            Ok(Self {
                version: Version { major, minor },
                create: library.function(c"nvrtcCreateProgram")?,
                compile: library.function(c"nvrtcCompileProgram")?,
                destroy: library.function(c"nvrtcDestroyProgram")?,
                error: library.function(c"nvrtcGetErrorString")?,
                log: (library.function(c"nvrtcGetProgramLogSize")?, library.function(c"nvrtcGetProgramLog")?),
                cubin: (library.function(c"nvrtcGetCUBINSize")?, library.function(c"nvrtcGetCUBIN")?),
                ptx: (library.function(c"nvrtcGetPTXSize")?, library.function(c"nvrtcGetPTX")?),
                architectures: library
                    .function(c"nvrtcGetNumSupportedArchs")
                    .and_then(|count| Ok((count, library.function(c"nvrtcGetSupportedArchs")?)))
                    .ok(),
            })
        }
    }

    pub const fn version(&self) -> Version {
        self.version
    }

    /// The architectures that it compiles for, as 90 for `sm_90`; none if it does not say.
    pub fn architectures(&self) -> Vec<i32> {
        let Some((count_of, all_of)) = self.architectures else { return Vec::new() };
        let mut count = 0;
        // SAFETY: a place for a number.
        if unsafe { count_of(&raw mut count) } != 0 {
            return Vec::new();
        }
        let mut all = vec![0; usize::try_from(count).unwrap_or_default()];
        // SAFETY: places for so many numbers as it said.
        if unsafe { all_of(all.as_mut_ptr()) } == 0 { all } else { Vec::new() }
    }

    /// The file that it was opened from.
    pub fn file(&self) -> Option<PathBuf> {
        file_of(self.create as *const c_void)
    }

    /// Compiles `program` to what its architecture asks for; with it comes the log: warnings, and what options asked for.
    ///
    /// # Errors
    /// What NVRTC says.
    pub fn compile(&self, program: &Program) -> Result<(Vec<u8>, String), CompileError> {
        let zero = |_| CompileError::ZeroByte { file: program.file.into() };
        let texts = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(CString::new).collect::<Result<Vec<_>, _>>().map_err(zero)
        };
        let failed = |code, log| CompileError::Source {
            file: program.file.into(),
            architecture: program.architecture.into(),
            options: program.options.into(),
            fault: self.meaning(code),
            log,
        };
        let architecture = format!("--gpu-architecture={}", program.architecture);
        let file = CString::new(program.file).map_err(zero)?;
        let source = CString::new(program.source).map_err(zero)?;
        let names = texts(&mut program.headers.iter().map(|(name, _)| *name))?;
        let headers = texts(&mut program.headers.iter().map(|(_, text)| *text))?;
        let options = texts(&mut std::iter::once(&architecture).chain(program.options).map(String::as_str))?;

        let mut open = Open { handle: null_mut(), destroy: self.destroy };
        // SAFETY: C strings that outlive the program, as many of them as is said.
        let code = unsafe {
            let (headers, names) = (pointers(&headers), pointers(&names));
            let count = headers.len() as c_int;
            let handle = &raw mut open.handle;
            (self.create)(handle, source.as_ptr(), file.as_ptr(), count, headers.as_ptr(), names.as_ptr())
        };
        if code != 0 {
            return Err(failed(code, String::new()));
        }
        let options = pointers(&options);
        // SAFETY: a program just made, and C strings.
        let code = unsafe { (self.compile)(open.handle, options.len() as c_int, options.as_ptr()) };
        let log = read(open.handle, self.log).map_or_else(|code| self.meaning(code), |log| text_of(&log));
        if code != 0 {
            return Err(failed(code, log));
        }
        let output = if program.architecture.starts_with("compute_") { self.ptx } else { self.cubin };
        match read(open.handle, output) {
            Ok(binary) if !binary.is_empty() => Ok((binary, log)),
            Ok(_) => Err(failed(0, String::from("the compiler gave an empty binary"))),
            Err(code) => Err(failed(code, log)),
        }
    }

    fn meaning(&self, code: c_int) -> String {
        // SAFETY: for every code, known or not, NVRTC gives a C string that lives for ever.
        let text = unsafe { (self.error)(code) };
        // SAFETY: as above.
        if text.is_null() {
            format!("error {code}")
        } else {
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
        }
    }
}

/// NVRTC opens its built-in functions by their plain name, which finds them only if they are open already.
fn open_builtins(folder: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let is_builtins = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so"))
    };
    // Each release has its own, and several may lie there: one that opens will do.
    let mut opened = Err(String::from("no libnvrtc-builtins.so beside it"));
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_builtins(path)) {
        // SAFETY: a library of data, without initialisers of its own.
        opened = opened.or(unsafe { Library::open(path.as_os_str()) }.map(drop));
    }
    opened
}

/// A program of NVRTC's, destroyed at the end.
struct Open {
    handle: Handle,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: made by NVRTC and not destroyed before. That it fails is of no use to anyone.
            unsafe { (self.destroy)(&raw mut self.handle) };
        }
    }
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

/// What the program has of one kind: first how much, then it.
fn read(handle: Handle, (size, bytes): (Size, Bytes)) -> Result<Vec<u8>, c_int> {
    let mut count = 0;
    // SAFETY: a program of NVRTC's.
    let code = unsafe { size(handle, &raw mut count) };
    if code != 0 {
        return Err(code);
    }
    let mut out = vec![0; count];
    // SAFETY: as many bytes as it asked for.
    let code = unsafe { bytes(handle, out.as_mut_ptr().cast()) };
    if code == 0 { Ok(out) } else { Err(code) }
}

fn text_of(log: &[u8]) -> String {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).trim_end().into()
}
