//! This host, as others see it: its name, what tells it from others, and where it can be reached.

#![cfg_attr(unix, expect(unsafe_code, reason = "the standard library lists no interfaces and no host names"))]

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use sha2::{Digest, Sha256};

/// A host of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    /// Two processes with one key reach each other by the loopback interface.
    pub key: [u8; 64],
}

impl Host {
    /// The host of this process.
    pub fn own() -> Self {
        let name = name();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let network = fs::read_link(Path::new("/proc/self/ns/net")).unwrap_or_default();
        let digest = Sha256::digest(format!("{name}\n{}\n{}", boot.trim(), network.display()));
        let mut key = [b'0'; 64];
        for (place, byte) in key.chunks_exact_mut(2).zip(digest) {
            place.copy_from_slice(format!("{byte:02x}").as_bytes());
        }
        Self { name, key }
    }
}

/// What the system calls this host.
#[cfg(unix)]
fn name() -> String {
    let mut bytes = [0_u8; 256];
    // SAFETY: the call writes at most as many bytes as it is told there is room for.
    let code = unsafe { libc::gethostname(bytes.as_mut_ptr().cast(), bytes.len()) };
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
    if code == 0 && !name.is_empty() { name } else { "localhost".to_owned() }
}

#[cfg(not(unix))]
fn name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned())
}

/// The IPv4 addresses of this host that are not the loopback interface's.
#[cfg(unix)]
pub fn addresses() -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call makes a list, which is given back below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return found;
    }
    let mut next = first;
    // SAFETY: each entry of the list is whole until it is given back, and the last one points nowhere.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: an address begins with its family.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|address| i32::from(address.sa_family));
        if family != Some(libc::AF_INET) {
            continue;
        }
        // SAFETY: an address of this family has this form.
        let address = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in>() };
        let address = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
        if !address.is_loopback() && !found.contains(&IpAddr::V4(address)) {
            found.push(IpAddr::V4(address));
        }
    }
    // SAFETY: the list was made above, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

#[cfg(not(unix))]
pub const fn addresses() -> Vec<IpAddr> {
    Vec::new()
}
