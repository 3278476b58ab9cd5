//! The CPU as a device: ranks are arenas of this process, queues are threads that call kernels.

#![expect(unsafe_code, reason = "calls name the memory that they use, and nobody else uses it meanwhile")]

pub mod arena;
mod attention;
mod collectives;
mod elementwise;
mod experts;
mod heads;
mod losses;
mod members;
mod memory;
mod messages;
mod products;
mod progress;
mod queue;
#[cfg(test)]
mod tests;
mod update;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use half::bf16;

use self::arena::Arena;
use self::members::Members;
use self::memory::Memory;
use self::messages::Messages;
use self::progress::Progress;
use self::queue::CpuQueue;
use crate::execute::call::{Lists, View};
use crate::execute::comm::{Carrier, Channel, Hub, Network, Peers, ProcessEndpoint, SCRATCH};
use crate::execute::device::{Device, FreeMemory, Need, Queue, Queues};
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::limits;
use crate::execute::pool::Pool;
use crate::execute::storage::{Storage, Types};
use crate::execute::threads as stacks;
use crate::lower::Stream;
use crate::ops::Group;
use crate::units::{Bytes, ElementType};

type Done = Result<(), ExecuteError>;

/// Types that there are kernels for: of activations, and of gradients where these differ.
#[derive(Clone, Copy)]
enum Kernels {
    Fp64,
    Fp32,
    Bf16,
    Bf16WithFp32,
}

const fn kernels(types: Types) -> Option<Kernels> {
    let (Storage::Number(compute), Storage::Number(gradient)) = (types.compute, types.gradient) else {
        return None;
    };
    match (compute, gradient) {
        (ElementType::Fp64, ElementType::Fp64) => Some(Kernels::Fp64),
        (ElementType::Fp32, ElementType::Fp32) => Some(Kernels::Fp32),
        (ElementType::Bf16, ElementType::Bf16) => Some(Kernels::Bf16),
        (ElementType::Bf16, ElementType::Fp32) => Some(Kernels::Bf16WithFp32),
        _ => None,
    }
}

/// The memory of ranks that compute on this machine's cores.
pub struct Cpu {
    ranks: Vec<CpuRank>,
    kernels: Kernels,
    /// Cores that the ranks share.
    cores: usize,
    /// What reaches the ranks of other processes, where each rank is one.
    network: Option<Arc<dyn Network>>,
}

struct CpuRank {
    /// In the run.
    number: usize,
    peers: Peers,
    device: Arena,
    host: Arena,
    lists: Lists,
}

impl Cpu {
    /// The device of ranks that store numbers as `types` and share `cores` cores.
    ///
    /// # Errors
    /// If there are no kernels for such numbers.
    pub fn new(types: Types, cores: usize) -> Result<Self, ExecuteError> {
        let Some(kernels) = kernels(types) else {
            let Types { compute, gradient, .. } = types;
            let what = format!("{compute} with gradients in {gradient}; bf16, fp32 and fp64 can be trained");
            return Err(ExecuteError::Unsupported(what));
        };
        Ok(Self { ranks: Vec::new(), kernels, cores, network: None })
    }

    /// The same, of one rank whose peers are other processes, which `network` reaches.
    #[must_use]
    pub fn among(self, network: Arc<dyn Network>) -> Self {
        Self { network: Some(network), ..self }
    }

    /// Where the host memory of `rank` begins, and its bytes.
    pub fn host_memory(&self, rank: usize) -> (*mut u8, usize) {
        let arena = &self.ranks[rank].host;
        (arena.address(), arena.bytes())
    }

    fn memory(&self, rank: usize) -> Memory<'_> {
        let CpuRank { device, host, .. } = &self.ranks[rank];
        Memory { device, host }
    }
}

impl Device for Cpu {
    fn free_memory(&self) -> FreeMemory {
        FreeMemory::Shared(limits::free_memory())
    }

    fn taken_memory(&self) -> Result<Option<Bytes>, ExecuteError> {
        Ok(limits::resident())
    }

    fn beside(&self, needs: &[Need]) -> Bytes {
        // What others send is summed there, in each group by itself.
        let groups = needs.iter().map(|need| need.channels.len() as u64).sum::<u64>();
        Bytes(self.network.as_ref().map_or(0, |_| groups * SCRATCH as u64))
    }

    fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        self.network.clone().map(|network| network as Arc<dyn Carrier>)
    }

    fn allocate(&mut self, ranks: Vec<Need>) -> Result<(), ExecuteError> {
        let rank = |need: Need| {
            let arena = |bytes: Bytes| {
                Arena::new(bytes.0 as usize).map_err(|error| {
                    let reason = error.to_string();
                    ExecuteError::Arena { rank: need.rank, bytes, reason }
                })
            };
            Ok(CpuRank {
                number: need.rank,
                peers: need.peers,
                device: arena(need.device)?,
                host: arena(need.host)?,
                lists: need.lists,
            })
        };
        self.ranks = ranks.into_iter().map(rank).collect::<Result<_, ExecuteError>>()?;
        Ok(())
    }

    unsafe fn upload(&self, rank: usize, view: View, bytes: &[u8]) {
        // SAFETY: as the caller vouches.
        unsafe { self.memory(rank).write::<u8>(Memory::bytes(view)) }.copy_from_slice(bytes);
    }

    unsafe fn download(&self, rank: usize, view: View, bytes: &mut [u8]) {
        // SAFETY: as the caller vouches.
        bytes.copy_from_slice(unsafe { self.memory(rank).read::<u8>(Memory::bytes(view)) });
    }

    fn open<'d>(&'d self) -> Result<Box<dyn Queues + 'd>, ExecuteError> {
        let count = self.ranks.len();
        let threads = self.cores / count.max(1);
        let pool = |rank| {
            let pool = (threads > 1).then(|| {
                rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(stacks::STACK).build()
            });
            pool.transpose().map_err(|error| ExecuteError::Rank { rank, message: error.to_string() })
        };
        Ok(Box::new(CpuQueues {
            cpu: self,
            memory: (0..count).map(|rank| self.memory(rank)).collect(),
            hub: match self.ranks.as_slice() {
                [CpuRank { peers: Peers::Absent, .. }] => Hub::alone(),
                _ => Hub::new(count),
            },
            pools: (0..count).map(pool).collect::<Result<_, _>>()?,
            progress: (0..count).map(|_| Progress::default()).collect(),
        }))
    }
}

struct CpuQueues<'d> {
    cpu: &'d Cpu,
    memory: Vec<Memory<'d>>,
    hub: Hub,
    pools: Vec<Option<rayon::ThreadPool>>,
    progress: Vec<Progress>,
}

impl CpuQueues<'_> {
    fn of<T: Element, G: Element<Wide = T::Wide>>(
        &self,
        (rank, stream): (usize, Stream),
        members: [Option<Members>; Group::COUNT],
    ) -> Result<Box<dyn Queue + '_>, ExecuteError> {
        let pool = match &self.pools[rank] {
            Some(pool) if matches!(stream, Stream::Compute | Stream::Host) => Pool::Threads(pool),
            _ => Pool::Serial,
        };
        let number = self.cpu.ranks[rank].number;
        Ok(Box::new(CpuQueue::<T, G> {
            rank: number,
            stream,
            progress: &self.progress[rank],
            memory: self.memory[rank],
            lists: &self.cpu.ranks[rank].lists,
            pool,
            members,
            messages: match &self.cpu.network {
                Some(network) => Messages::Processes(network.post()?),
                None => Messages::Threads { mailbox: self.hub.mailbox(number)?, peers: &self.memory },
            },
            step: 0,
            began: Instant::now(),
            marks: Vec::new(),
            types: PhantomData,
        }))
    }
}

impl Queues for CpuQueues<'_> {
    fn queue<'q>(
        &'q self,
        rank: usize,
        stream: Stream,
        groups: &[(Group, &[usize])],
    ) -> Result<Box<dyn Queue + 'q>, ExecuteError> {
        let mut members: [Option<Members>; Group::COUNT] = Default::default();
        for &(group, ranks) in groups {
            let channel = Channel { group, stream };
            members[group as usize] = Some(match &self.cpu.network {
                Some(network) => {
                    let member = ranks.iter().position(|member| *member == self.cpu.ranks[rank].number);
                    Members::Processes(ProcessEndpoint::new(
                        network.wire(channel, ranks)?,
                        ranks,
                        member.unwrap_or_default(),
                    ))
                }
                None => {
                    let number = self.cpu.ranks[rank].number;
                    Members::Threads(self.hub.endpoint(number, channel, ranks)?)
                }
            });
        }
        let place = (rank, stream);
        match self.cpu.kernels {
            Kernels::Fp64 => self.of::<f64, f64>(place, members),
            Kernels::Bf16 => self.of::<bf16, bf16>(place, members),
            Kernels::Bf16WithFp32 => self.of::<bf16, f32>(place, members),
            Kernels::Fp32 => self.of::<f32, f32>(place, members),
        }
    }

    fn restart(&self) {
        self.progress.iter().for_each(Progress::restart);
    }

    fn guard(&self, rank: usize, work: &mut dyn FnMut() -> Done) -> Done {
        let done = self.hub.guard(self.cpu.ranks[rank].number, work);
        if done.is_err() {
            self.progress[rank].fail();
        }
        done
    }
}
