//! Memory that a communicator knows, which need not be copied on its way: that of all ranks of a call, or of none. NCCL
//! registers memory that is mapped ([`super::super::mapped`]), and no other.

#![expect(unsafe_code, reason = "NCCL is a C library")]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::PoisonError;

use super::communicator::Communicator;

impl Communicator {
    /// Registers memory. Whether the library takes it: one that does not, or has no such function, copies it as before.
    pub fn register(&self, (address, bytes): (u64, usize)) -> bool {
        let Some(register) = self.nccl.0.register else { return false };
        let mut handle = null_mut();
        // SAFETY: memory of the rank, which stays until the communicator has ended; a place for the handle.
        let status = unsafe { register(self.handle, address as *mut c_void, bytes, &raw mut handle) };
        if self.settle(status, "registering memory").is_err() {
            return false;
        }
        self.registered.lock().unwrap_or_else(PoisonError::into_inner).push(handle as usize);
        true
    }

    /// Undoes what [`Self::register`] did.
    pub fn deregister(&self) {
        let Some(deregister) = self.nccl.0.deregister else { return };
        for handle in self.registered.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // SAFETY: registered once, and nothing is under way.
            let _ = unsafe { deregister(self.handle, handle as *mut c_void) };
        }
    }
}
