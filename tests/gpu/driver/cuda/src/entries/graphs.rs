//! Graphs: made executable, launched, replaced.

use super::give;
use crate::call::{Session, entries, notify};
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::graph::{Executable, Run};
use crate::stream::Ticket;
use crate::work::Work;
use cudarc::driver::sys::{
    CUgraphExecUpdateResult_enum as Update, CUgraphExecUpdateResultInfo_st as UpdateInfo,
};
use std::sync::Arc;

entries! {
    Context fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) |session| {
        if flags != 0 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("an executable graph with flags {flags:#x}"));
        }
        let graph = Arc::new(session.graph(graph)?.clone());
        let lanes = (0..graph.branches).map(|_| session.lane()).collect();
        let (number, device) = (session.handle(), session.current()?);
        session.executables.insert(number, Executable { graph, lanes, latest: None, device });
        give(executable, number as Handle)
    }

    Context fn cuGraphLaunch(executable: Handle, stream: Handle) |session| {
        let stream = session.stream(stream)?;
        session.refuse_captured(stream, "a graph is launched on a stream that is captured")?;
        let found = session.executable(executable)?;
        let (mut run, before, device) = (Run::new(found), found.latest.clone(), found.device);
        if session.streams[&stream].device != device {
            return refuse(Error::CUDA_ERROR_INVALID_HANDLE, "the graph is of another device than the stream");
        }
        session.nccl.check_graph(&run)?;
        if let Some(before) = before {
            session.submit(stream, Work::Wait(before))?;
        }
        run.communications.values_mut().for_each(|communication| session.take_turn(communication));
        if !run.graph.nodes.is_empty() {
            session.submit(stream, Work::Graph(run))?;
            notify();
        }
        let ticket = Arc::new(Ticket::default());
        session.submit(stream, Work::Record(ticket.clone()))?;
        session.executable(executable)?.latest = Some(ticket);
        Ok(())
    }

    Context fn cuGraphUpload(executable: Handle, stream: Handle) |session| {
        session.stream(stream)?;
        session.executable(executable).map(drop)
    }

    Context fn cuGraphExecUpdate_v2(executable: Handle, graph: Handle, info: *mut UpdateInfo) |session| {
        let graph = session.graph(graph)?.clone();
        let found = session.executable(executable)?;
        let same = found.graph.same_shape(&graph);
        let result = match same {
            Ok(()) => Update::CU_GRAPH_EXEC_UPDATE_SUCCESS,
            Err(_) => Update::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
        };
        let (none, from) = (std::ptr::null_mut(), std::ptr::null_mut());
        give(info, UpdateInfo { result, errorNode: none, errorFromNode: from })?;
        same?;
        found.graph = Arc::new(graph);
        Ok(())
    }

    Context fn cuGraphExecDestroy(executable: Handle) |session| {
        session.executable(executable)?;
        session.executables.remove(&(executable as u64));
        Ok(())
    }

    Context fn cuGraphDestroy(graph: Handle) |session| {
        session.graph(graph)?;
        session.graphs.remove(&(graph as u64));
        Ok(())
    }

    Context fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) |session| {
        let there = session.graph(graph)?.nodes.len();
        if !nodes.is_null() {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, "the nodes of a graph, of which only the number is known");
        }
        give(count, there)
    }
}

impl Session {
    fn graph(&mut self, handle: Handle) -> Answer<&crate::graph::Graph> {
        match self.graphs.get(&(handle as u64)) {
            Some(graph) => Ok(graph),
            None => refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{handle:?} is no graph")),
        }
    }

    fn executable(&mut self, handle: Handle) -> Answer<&mut Executable> {
        match self.executables.get_mut(&(handle as u64)) {
            Some(executable) => Ok(executable),
            None => refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{handle:?} is no executable graph")),
        }
    }
}
