//! The settings of a communicator.

use std::ffi::c_int;
use std::ptr::null;

use cudarc::nccl::sys::ncclConfig_t;

/// `ncclConfig_t` begins with this number, and with the release of the header that it is of.
const MAGIC: u32 = 0xcafe_beef;
const HEADER: u32 = 23_007;

/// Says of an integer of the configuration that the library may choose.
const UNDEFINED: c_int = c_int::MIN;

/// A communicator that does not block; all else as the library finds best.
pub fn config() -> ncclConfig_t {
    ncclConfig_t {
        size: size_of::<ncclConfig_t>(),
        magic: MAGIC,
        version: HEADER,
        blocking: 0,
        cgaClusterSize: UNDEFINED,
        minCTAs: UNDEFINED,
        maxCTAs: UNDEFINED,
        netName: null(),
        splitShare: UNDEFINED,
        trafficClass: UNDEFINED,
        commName: null(),
        collnetEnable: UNDEFINED,
        CTAPolicy: UNDEFINED,
        shrinkShare: UNDEFINED,
        nvlsCTAs: UNDEFINED,
        nChannelsPerNetPeer: UNDEFINED,
        nvlinkCentricSched: UNDEFINED,
        graphUsageMode: UNDEFINED,
        numRmaCtx: UNDEFINED,
        maxP2pPeers: UNDEFINED,
    }
}
