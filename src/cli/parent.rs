//! Ends this process with the one that started it.

/// From here on this process is killed when its parent ends. A torchrun that is killed leaves its processes running.
#[cfg(target_os = "linux")]
pub fn die_with_it() {
    let kill = libc::SIGKILL as libc::c_ulong;
    // SAFETY: the call sets a number of this process.
    #[expect(unsafe_code, reason = "the standard library does not know parents")]
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, kill);
    }
}

/// Systems other than Linux have no such signal.
#[cfg(not(target_os = "linux"))]
pub const fn die_with_it() {}
