//! What there is of devices, and what they are like.

use super::{give, give_text};
use crate::call::entries;
use crate::driver::Driver;
use crate::failure::{Answer, Error, refuse};
use cudarc::driver::sys::CUdevice_P2PAttribute_enum as PeerAttribute;
use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use std::ffi::{CStr, c_char};

/// Shared memory of compute capability 8.0.
pub const SHARED_OF_BLOCK: i32 = 163 * 1024;
pub const SHARED_OF_PROCESSOR: i32 = 164 * 1024;
/// What the driver keeps of each block's shared memory.
pub const RESERVED_SHARED: i32 = 1024;
pub const THREADS_OF_PROCESSOR: i32 = 2048;
pub const BLOCKS_OF_PROCESSOR: i32 = 32;

entries! {
    Nothing fn cuInit(flags: u32) |session| {
        if flags != 0 {
            return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
        }
        if session.settings.devices == 0 {
            return Err(Error::CUDA_ERROR_NO_DEVICE.into());
        }
        session.initialised = true;
        Ok(())
    }

    Nothing fn cuDriverGetVersion(version: *mut i32) |session| { give(version, session.settings.version) }

    Initialised fn cuDeviceGetCount(count: *mut i32) |session| { give(count, session.settings.devices as i32) }

    Initialised fn cuDeviceGet(device: *mut i32, ordinal: i32) |session| {
        session.ordinal(ordinal)?;
        give(device, ordinal)
    }

    Initialised fn cuDeviceGetName(name: *mut c_char, room: i32, device: i32) |session| {
        session.ordinal(device)?;
        give_text(name, room, session.settings.name(device))
    }

    Initialised fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32) |session| {
        give(uuid, session.uuid(device)?)
    }

    Initialised fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32) |session| {
        give(uuid, session.uuid(device)?)
    }

    Initialised fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) |session| {
        session.ordinal(device)?;
        give(bytes, session.settings.memory)
    }

    Initialised fn cuDeviceGetPCIBusId(name: *mut c_char, room: i32, device: i32) |session| {
        session.ordinal(device)?;
        give_text(name, room, &bus(device))
    }

    Initialised fn cuDeviceGetByPCIBusId(device: *mut i32, name: *const c_char) |session| {
        let name = CStr::from_ptr(name).to_string_lossy().to_lowercase();
        let found = (0..session.settings.devices as i32).find(|&device| bus(device) == name);
        give(device, found.ok_or(Error::CUDA_ERROR_INVALID_DEVICE)?)
    }

    Initialised fn cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32) |session| {
        session.ordinal(device)?;
        let answer = session.attribute(attribute, device);
        give(value, answer.map_or_else(|| refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("device attribute {attribute}")), Ok)?)
    }

    Initialised fn cuDeviceCanAccessPeer(answer: *mut i32, device: i32, peer: i32) |session| {
        session.ordinal(device)?;
        session.ordinal(peer)?;
        give(answer, i32::from(session.settings.peers && device != peer))
    }

    Initialised fn cuDeviceGetP2PAttribute(value: *mut i32, attribute: u32, device: i32, peer: i32) |session| {
        session.ordinal(device)?;
        session.ordinal(peer)?;
        if device == peer {
            return Err(Error::CUDA_ERROR_INVALID_DEVICE.into());
        }
        // The lowest rank is the best link.
        let supported = attribute != PeerAttribute::CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK as u32;
        give(value, i32::from(session.settings.peers && supported))
    }
}

fn bus(device: i32) -> String {
    format!("0000:{:02x}:00.0", device + 1)
}

impl Driver {
    fn uuid(&self, device: i32) -> Answer<[u8; 16]> {
        self.ordinal(device)?;
        let mut uuid = *b"fake CUDA device";
        uuid[15] = device as u8;
        Ok(uuid)
    }

    fn attribute(&self, attribute: u32, device: i32) -> Option<i32> {
        use Attribute as A;
        let (major, minor) = self.settings.capability;
        let values = [
            (A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024),
            (A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024),
            (A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024),
            (A::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64),
            (A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, i32::MAX),
            (A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65_535),
            (A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65_535),
            (A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, crate::kernel::PLAIN_SHARED as i32),
            (A::CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65_536),
            (A::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32),
            (A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65_536),
            (A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1_000_000),
            (A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, self.settings.processors),
            (A::CU_DEVICE_ATTRIBUTE_INTEGRATED, 0),
            (A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0),
            (A::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0),
            (A::CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1),
            (A::CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 0),
            (A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device + 1),
            (A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0),
            (A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0),
            (A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1_000_000),
            (A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 4096),
            (A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 40 << 20),
            (A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, THREADS_OF_PROCESSOR),
            (A::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2),
            (A::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1),
            (A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major),
            (A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor),
            (A::CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1),
            (A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, SHARED_OF_PROCESSOR),
            (A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65_536),
            (A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0),
            (A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0),
            (A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0),
            (A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0),
            (A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, SHARED_OF_BLOCK),
            (A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1),
            (A::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, i32::from(self.settings.mapping)),
            (A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1),
            (A::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, i32::from(self.settings.fabric)),
            (A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0),
            (A::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, BLOCKS_OF_PROCESSOR),
            (A::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, RESERVED_SHARED),
            (A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1),
            (A::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 0),
        ];
        values.iter().find(|(known, _)| *known as u32 == attribute).map(|&(_, value)| value)
    }
}
