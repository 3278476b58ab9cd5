//! Stands for NVIDIA's `libnvrtc`: forwards to the real one in the folder that `FAKE_CUDA_NVRTC` names, but compiles for
//! the architecture that the emulator takes, and hands out PTX as if it were machine code.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

type Handle = *mut c_void;
type Texts = *const *const c_char;

/// What the emulator reads.
const ARCHITECTURE: &CStr = c"--gpu-architecture=compute_80";

static REAL: LazyLock<Library> = LazyLock::new(open);

/// Without the real compiler nothing can go on.
fn open() -> Library {
    let Some(folder) = std::env::var_os("FAKE_CUDA_NVRTC").map(PathBuf::from) else {
        stop("FAKE_CUDA_NVRTC doesn't name the folder of NVIDIA's NVRTC");
    };
    let files =
        std::fs::read_dir(&folder).map(|files| files.flatten().map(|file| file.path()).collect::<Vec<_>>());
    let files = files.unwrap_or_else(|error| stop(&format!("{}: {error}", folder.display())));
    let starts = |path: &Path, with: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(with))
    };
    // The compiler finds its built-in functions only if they are loaded already.
    for builtins in files.iter().filter(|path| starts(path, "libnvrtc-builtins.so")) {
        if let Ok(library) = unsafe { Library::open(Some(builtins), RTLD_NOW | RTLD_GLOBAL) } {
            std::mem::forget(library);
        }
    }
    let Some(path) = files.iter().find(|path| starts(path, "libnvrtc.so")) else {
        stop(&format!("{} has no libnvrtc.so", folder.display()));
    };
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
        .unwrap_or_else(|error| stop(&format!("{}: {error}", path.display())))
}

fn stop(text: &str) -> ! {
    eprintln!("fake NVRTC: {text}");
    std::process::exit(70)
}

/// A function of the real compiler.
unsafe fn real<T: Copy>(name: &str) -> T {
    match unsafe { REAL.get::<T>(format!("{name}\0").as_bytes()) } {
        Ok(function) => *function,
        Err(error) => stop(&format!("{name}: {error}")),
    }
}

macro_rules! forward {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty = $target:literal;)*) => {$(
        /// # Safety
        /// As the real function's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            unsafe { real::<unsafe extern "C" fn($($kind),*) -> $result>($target)($($argument),*) }
        }
    )*};
}

forward! {
    fn nvrtcGetErrorString(code: c_int) -> *const c_char = "nvrtcGetErrorString";
    fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> c_int = "nvrtcGetNumSupportedArchs";
    fn nvrtcGetSupportedArchs(all: *mut c_int) -> c_int = "nvrtcGetSupportedArchs";
    fn nvrtcCreateProgram(
        program: *mut Handle, source: *const c_char, name: *const c_char, count: c_int, headers: Texts, names: Texts
    ) -> c_int = "nvrtcCreateProgram";
    fn nvrtcDestroyProgram(program: *mut Handle) -> c_int = "nvrtcDestroyProgram";
    fn nvrtcGetProgramLogSize(program: Handle, bytes: *mut usize) -> c_int = "nvrtcGetProgramLogSize";
    fn nvrtcGetProgramLog(program: Handle, log: *mut c_char) -> c_int = "nvrtcGetProgramLog";
    fn nvrtcAddNameExpression(program: Handle, name: *const c_char) -> c_int = "nvrtcAddNameExpression";
    fn nvrtcGetLoweredName(program: Handle, name: *const c_char, lowered: *mut *const c_char) -> c_int = "nvrtcGetLoweredName";
    fn nvrtcGetPTXSize(program: Handle, bytes: *mut usize) -> c_int = "nvrtcGetPTXSize";
    fn nvrtcGetPTX(program: Handle, ptx: *mut c_char) -> c_int = "nvrtcGetPTX";
    fn nvrtcGetCUBINSize(program: Handle, bytes: *mut usize) -> c_int = "nvrtcGetPTXSize";
    fn nvrtcGetCUBIN(program: Handle, ptx: *mut c_char) -> c_int = "nvrtcGetPTX";
}

/// The real one's, unless `FAKE_CUDA_NVRTC_VERSION` says another, as `12.4`.
///
/// # Safety
/// As the real function's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    let Ok(text) = std::env::var("FAKE_CUDA_NVRTC_VERSION") else {
        return unsafe {
            real::<unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int>("nvrtcVersion")(major, minor)
        };
    };
    let numbers =
        text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let Some(version) = numbers else {
        stop(&format!("FAKE_CUDA_NVRTC_VERSION must be two numbers such as 12.4, not `{text}`"));
    };
    unsafe { (*major, *minor) = version };
    0
}

/// Takes another architecture, and no options for the assembler, which has nothing to do.
///
/// # Safety
/// As the real function's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(program: Handle, count: c_int, options: Texts) -> c_int {
    let given = (0..count as usize).map(|index| unsafe { *options.add(index) });
    let replaced = ["--gpu-architecture", "-arch", "--ptxas-options", "-Xptxas"];
    let kept = given.filter(|&option| {
        let option = unsafe { CStr::from_ptr(option) }.to_string_lossy();
        !replaced.iter().any(|start| option.starts_with(start))
    });
    let options: Vec<*const c_char> = std::iter::once(ARCHITECTURE.as_ptr()).chain(kept).collect();
    unsafe {
        let compile = real::<unsafe extern "C" fn(Handle, c_int, Texts) -> c_int>("nvrtcCompileProgram");
        compile(program, options.len() as c_int, options.as_ptr())
    }
}
