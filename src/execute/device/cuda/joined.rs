//! Ranks that have a GPU each, one of this process or several: to each rank its GPU, and NCCL between them.

#![expect(unsafe_code, reason = "it implements a trait whose functions are unsafe to call")]

use std::sync::Arc;

use super::nccl::Nccl;
use super::nccl::links::{self, Links};
use super::nccl::network::NcclCarrier;
use super::{Cuda, driver};
use crate::execute::call::View;
use crate::execute::comm::{Alarm, Carrier};
use crate::execute::device::{Device, FreeMemory, Need, Queue, Queues, Submission, WholeStep};
use crate::execute::error::ExecuteError;
use crate::execute::limits;
use crate::execute::storage::Types;
use crate::execute::world::World;
use crate::lower::Stream;
use crate::ops::Group;
use crate::trace;
use crate::units::Bytes;

/// The GPUs of this process's ranks, in their order.
pub struct Joined {
    // Dropped first: communicators go while their GPUs are there.
    carrier: Option<Arc<NcclCarrier>>,
    gpus: Vec<Cuda>,
    nccl: Nccl,
    world: Option<Arc<World>>,
    alarm: Alarm,
}

impl Joined {
    /// The first `ranks` GPUs of this machine, for ranks of this process that store numbers as `types` and share `cores` cores.
    ///
    /// # Errors
    /// If there are fewer, or NCCL is missing.
    pub fn of_process(ranks: usize, types: Types, cores: usize) -> Result<Self, ExecuteError> {
        if driver::count()? < ranks {
            return Err(super::few_devices(ranks as u64));
        }
        let (nccl, each) = (Nccl::find()?, (cores / ranks).max(1));
        let gpus = (0..ranks).map(|ordinal| Cuda::new(ordinal, types, each)).collect::<Result<_, _>>()?;
        Ok(Self { carrier: None, gpus, nccl, world: None, alarm: Alarm::default() })
    }

    /// The GPU of the one rank of this process of `world`: of those of its host, the one of its place among the host's ranks.
    ///
    /// # Errors
    /// If there is none, or NCCL is missing.
    pub fn of_world(world: Arc<World>, types: Types, cores: usize) -> Result<Self, ExecuteError> {
        let own = &world.own;
        let place = own.on_host.iter().position(|rank| *rank == own.rank).unwrap_or_default();
        // A launcher may show each process one GPU: then it is the first.
        let ordinal = place % driver::count()?.max(1);
        let (nccl, gpu) = (Nccl::find()?, Cuda::new(ordinal, types, cores)?);
        let alarm = world.control().alarm().clone();
        Ok(Self { carrier: None, gpus: vec![gpu], nccl, world: Some(world), alarm })
    }

    /// Registers the ranks' memory with NCCL, which then need not copy it: that of all ranks or of none, because a collective
    /// must not meet both.
    fn register(&self) -> Result<(), ExecuteError> {
        let links = || self.gpus.iter().filter_map(|cuda| Some((cuda, cuda.links.as_ref()?)));
        let registered = links().all(|(cuda, links)| {
            cuda.gpu.bind().is_ok() && cuda.ranks.iter().all(|memory| links.register(&memory.registrable()))
        });
        let all = match &self.world {
            Some(world) => world.all_gather(&registered)?.into_iter().all(|registered| registered),
            None => registered,
        };
        if !all {
            links().for_each(|(_, links)| links.deregister());
        }
        Ok(())
    }
}

impl Device for Joined {
    /// Of the GPU that has the least.
    fn free_memory(&self) -> FreeMemory {
        let free = self.gpus.iter().map(|cuda| cuda.gpu.free().unwrap_or(Bytes::ZERO)).min();
        FreeMemory::Each { device: free.unwrap_or(Bytes::ZERO), host: limits::free_memory() }
    }

    fn taken_memory(&self) -> Result<Option<Bytes>, ExecuteError> {
        let mut all = Bytes::ZERO;
        for cuda in &self.gpus {
            all += cuda.taken_memory()?.unwrap_or(Bytes::ZERO);
        }
        Ok(Some(all))
    }

    fn beside(&self, needs: &[Need]) -> Bytes {
        self.gpus.iter().zip(needs).map(|(gpu, need)| gpu.beside(std::slice::from_ref(need))).sum()
    }

    fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        self.carrier.clone().map(|carrier| carrier as Arc<dyn Carrier>)
    }

    fn submission(&self) -> Submission {
        Submission::ThreadPerRank
    }

    fn library(&self) -> Option<String> {
        Some(format!("NCCL {}", self.nccl.version()))
    }

    fn gpu(&self) -> Option<&str> {
        self.gpus.first()?.gpu()
    }

    fn products(&self) -> Option<trace::Products> {
        self.gpus.first()?.products()
    }

    fn allocate(&mut self, ranks: Vec<Need>) -> Result<(), ExecuteError> {
        let gpus: Vec<_> = self.gpus.iter().map(|cuda| Arc::clone(&cuda.gpu)).collect();
        let ranks_here: Vec<_> = gpus.into_iter().zip(&ranks).collect();
        let made = links::join(self.nccl, &ranks_here, self.world.as_deref(), &self.alarm)?;
        let made: Vec<Arc<Links>> = made.into_iter().map(Arc::new).collect();
        if let (Some(_), [links], [cuda]) = (&self.world, made.as_slice(), self.gpus.as_slice()) {
            self.carrier = Some(Arc::new(NcclCarrier::new(Arc::clone(links), Arc::clone(&cuda.gpu))));
        }
        for ((cuda, need), links) in self.gpus.iter_mut().zip(ranks).zip(made) {
            (cuda.links, cuda.alarm) = (Some(links), self.alarm.clone());
            cuda.allocate(vec![need])?;
        }
        self.register()
    }

    unsafe fn upload(&self, rank: usize, view: View, bytes: &[u8]) {
        // SAFETY: as the caller vouches.
        unsafe { self.gpus[rank].upload(0, view, bytes) }
    }

    unsafe fn download(&self, rank: usize, view: View, bytes: &mut [u8]) {
        // SAFETY: as the caller vouches.
        unsafe { self.gpus[rank].download(0, view, bytes) }
    }

    fn failure(&self) -> Option<ExecuteError> {
        self.gpus.iter().find_map(Device::failure)
    }

    fn open<'d>(&'d self) -> Result<Box<dyn Queues + 'd>, ExecuteError> {
        let gpus = self.gpus.iter().map(Device::open).collect::<Result<_, _>>()?;
        Ok(Box::new(JoinedQueues { gpus, joined: self }))
    }
}

struct JoinedQueues<'d> {
    gpus: Vec<Box<dyn Queues + 'd>>,
    joined: &'d Joined,
}

impl Queues for JoinedQueues<'_> {
    fn queue<'q>(
        &'q self,
        rank: usize,
        stream: Stream,
        groups: &[(Group, &[usize])],
    ) -> Result<Box<dyn Queue + 'q>, ExecuteError> {
        self.gpus[rank].queue(0, stream, groups)
    }

    fn whole_step(&self, rank: usize) -> Option<&dyn WholeStep> {
        self.gpus[rank].whole_step(0)
    }

    fn restart(&self) {
        self.gpus.iter().for_each(|gpu| gpu.restart());
    }

    fn guard(
        &self,
        rank: usize,
        work: &mut dyn FnMut() -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError> {
        self.joined.gpus[rank].near.stay();
        let done = self.gpus[rank].guard(0, work);
        if let Err(error) = &done {
            let numbers = &self.joined.gpus[rank].numbers;
            self.joined.alarm.ring(numbers.first().copied().unwrap_or(rank), error.to_string());
        }
        done
    }
}
