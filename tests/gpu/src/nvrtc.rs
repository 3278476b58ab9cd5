//! NVIDIA's runtime compiler, opened when it is needed. The folder comes from `MESHWRIGHT_NVRTC`, else the loader's
//! own path is searched.

use crate::fault::{Fault, fault};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::null;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// What a compilation gives: always PTX, and machine code where the architecture is a real one (`sm_90`).
pub struct Compiled {
    pub ptx: String,
    pub cubin: Vec<u8>,
}

pub struct Nvrtc {
    library: Library,
    /// Version 13.0 finds its built-in functions only if they are loaded already.
    _builtins: Option<Library>,
}

impl Nvrtc {
    pub fn open() -> Result<Nvrtc, Fault> {
        let folder = std::env::var_os("MESHWRIGHT_NVRTC").map(PathBuf::from).unwrap_or_default();
        let open = |name: &str| unsafe { Library::open(Some(folder.join(name)), RTLD_NOW | RTLD_GLOBAL) };
        let builtins =
            ["libnvrtc-builtins.so.13.0", "libnvrtc-builtins.so"].iter().find_map(|name| open(name).ok());
        let mut problem = String::new();
        for name in ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"] {
            match open(name) {
                Ok(library) => return Ok(Nvrtc { library, _builtins: builtins }),
                Err(error) => problem = format!("{error:?}"),
            }
        }
        fault(format!("NVRTC can't be opened (MESHWRIGHT_NVRTC names its folder): {problem}"))
    }

    fn function<T: Copy>(&self, name: &str) -> Result<T, Fault> {
        let symbol = CString::new(name).expect("names hold no zero");
        let found = unsafe { self.library.get::<T>(symbol.as_bytes_with_nul()) };
        found.map(|function| *function).map_err(|error| Fault(format!("NVRTC: {error}")))
    }

    /// The compiler's version.
    pub fn version(&self) -> Result<[c_int; 2], Fault> {
        let version =
            self.function::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion")?;
        let [mut major, mut minor] = [0; 2];
        unsafe { version(&mut major, &mut minor) };
        Ok([major, minor])
    }

    /// Compiles a source; `name` stands in its messages.
    pub fn compile(&self, name: &str, source: &str, options: &[String]) -> Result<Compiled, Fault> {
        let no_zero = |text: &str| CString::new(text).map_err(|error| Fault(format!("{name}: {error}")));
        let (c_name, c_source) = (no_zero(name)?, no_zero(source)?);
        let c_options = options.iter().map(|option| no_zero(option)).collect::<Result<Vec<_>, _>>()?;
        let pointers: Vec<*const c_char> = c_options.iter().map(|option| option.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        let create = self.function::<Create>("nvrtcCreateProgram")?;
        let compile = self.function::<Compile>("nvrtcCompileProgram")?;
        let destroy = self.function::<Destroy>("nvrtcDestroyProgram")?;
        let status = unsafe { create(&mut program, c_source.as_ptr(), c_name.as_ptr(), 0, null(), null()) };
        if status != 0 {
            return fault(format!("{name}: nvrtcCreateProgram gives {status}"));
        }
        let status = unsafe { compile(program, pointers.len() as c_int, pointers.as_ptr()) };
        let result = if status != 0 {
            let log = self.fetch(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")?;
            fault(format!("{name} doesn't compile with {options:?}:\n{}", text(log)))
        } else {
            let ptx = self.fetch(program, "nvrtcGetPTXSize", "nvrtcGetPTX")?;
            let cubin = self.fetch(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")?;
            Ok(Compiled { ptx: text(ptx), cubin })
        };
        unsafe { destroy(&mut program) };
        result
    }

    fn fetch(&self, program: Program, size: &str, get: &str) -> Result<Vec<u8>, Fault> {
        let (size, get) = (self.function::<Size>(size)?, self.function::<Get>(get)?);
        let mut bytes = 0;
        unsafe { size(program, &mut bytes) };
        let mut buffer = vec![0u8; bytes];
        if bytes > 0 {
            unsafe { get(program, buffer.as_mut_ptr().cast()) };
        }
        Ok(buffer)
    }
}

fn text(mut bytes: Vec<u8>) -> String {
    bytes.push(0);
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
