//! How ranks come to rank 0, once it is known where that is.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::control::star::{self, Connected, LOOPBACK};
use super::error::WorldError;
use super::host::{self, Host};
use super::token::{self, Token};

/// How long ranks may take to find rank 0.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where rank 0 listens, and what shows that somebody is of the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Meeting {
    pub addresses: Vec<SocketAddr>,
    pub token: Token,
    /// The name of rank 0's host.
    pub host: String,
    /// What tells that host from others, if it is known.
    pub key: Option<Vec<u8>>,
}

/// A process that is about to meet the others.
pub(super) struct Guest<'a> {
    pub rank: usize,
    pub size: usize,
    pub host: &'a Host,
    /// When its clock began to run.
    pub began: Instant,
    /// Until when it waits for others.
    pub deadline: Instant,
}

impl<'a> Guest<'a> {
    /// Rank `rank` of `size`, on `host`, from now on.
    pub fn new((rank, size): (usize, usize), host: &'a Host) -> Self {
        let began = Instant::now();
        Self { rank, size, host, began, deadline: began + PATIENCE }
    }

    fn clock(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// At rank 0: listens at free ports of `reach`, with what the others are to be told. They are told even if it cannot
    /// listen, as they wait for it.
    pub fn call(&self, reach: Reach) -> (Meeting, Result<Vec<TcpListener>, WorldError>) {
        let listeners = star::listen(&reach.addresses(), 0).map_err(connection);
        let addresses = listeners.iter().flatten().filter_map(|listener| listener.local_addr().ok());
        let meeting = Meeting {
            addresses: addresses.collect(),
            token: token::random(),
            host: self.host.name.clone(),
            key: Some(self.host.key.to_vec()),
        };
        (meeting, listeners)
    }

    /// At rank 0: the others, who come to `listeners` and show `token`.
    ///
    /// # Errors
    /// Who did not come.
    pub fn receive(&self, listeners: &[TcpListener], token: &Token) -> Result<Vec<Connected>, WorldError> {
        let clock = || self.clock();
        star::accept(listeners, self.size - 1, token, (self.deadline, &clock)).map_err(WorldError::Missing)
    }

    /// At other ranks: rank 0, which said `meeting`.
    ///
    /// # Errors
    /// Why it is not reached.
    pub fn join(&self, meeting: Meeting) -> Result<Vec<Connected>, WorldError> {
        // From another host, rank 0's loopback address would be this host's own.
        let is_near = meeting.key.is_none_or(|key| key == self.host.key);
        let is_reached = |address: &&SocketAddr| is_near || !address.ip().is_loopback();
        let addresses: Vec<SocketAddr> = meeting.addresses.iter().filter(is_reached).copied().collect();
        let name = (self.rank, self.host.name.as_str());
        let clock = || self.clock();
        let stream =
            star::connect(&addresses, name, &meeting.token, (self.deadline, &clock)).map_err(connection)?;
        Ok(vec![Connected { rank: 0, host: meeting.host, stream, clock: 0.0 }])
    }
}

/// Who reaches rank 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Processes of its own host.
    OneHost,
    /// Processes of other hosts too.
    Hosts,
}

impl Reach {
    /// Where rank 0 listens.
    pub fn addresses(self) -> Vec<IpAddr> {
        match self {
            Self::OneHost => vec![LOOPBACK],
            Self::Hosts => std::iter::once(LOOPBACK).chain(host::addresses()).collect(),
        }
    }
}

pub(super) fn connection(reason: impl ToString) -> WorldError {
    WorldError::Connection(reason.to_string())
}
