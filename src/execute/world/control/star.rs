//! How control connections come about: rank 0 listens, the others connect, show the job's token, and compare clocks.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::execute::world::token::Token;

/// Both sides of a connection begin with it.
const MAGIC: &[u8; 8] = b"MESHWR\x00\x01";

/// Times that clocks are compared; the shortest way there and back counts.
const PINGS: u32 = 5;

/// How long a stranger may keep rank 0 waiting.
const PATIENCE: Duration = Duration::from_secs(3);

/// Between looks for who connects.
const PAUSE: Duration = Duration::from_millis(2);

/// The far end of a control connection.
#[derive(Debug)]
pub struct Connected {
    pub rank: usize,
    pub host: String,
    pub stream: TcpStream,
    /// What its clock shows more than rank 0's, in seconds.
    pub clock: f64,
}

/// Listens at `addresses`, each at a free port, or at `port`.
///
/// # Errors
/// If it cannot listen at any.
pub fn listen(addresses: &[IpAddr], port: u16) -> io::Result<Vec<TcpListener>> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "this host has no address");
    let mut listeners = Vec::new();
    for address in addresses {
        match TcpListener::bind((*address, port)) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                listeners.push(listener);
            }
            Err(error) => last = error,
        }
    }
    if listeners.is_empty() { Err(last) } else { Ok(listeners) }
}

/// The address of this host that only its own processes reach.
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Waits until `others` ranks, 1 to `others`, have connected; in their order. `clock` shows seconds.
///
/// # Errors
/// The ranks that did not come until `deadline`.
pub fn accept(
    listeners: &[TcpListener],
    others: usize,
    token: &Token,
    (deadline, clock): (Instant, &dyn Fn() -> f64),
) -> Result<Vec<Connected>, Vec<usize>> {
    let mut came: Vec<Option<Connected>> = (0..others).map(|_| None).collect();
    loop {
        let mut has_any = false;
        for listener in listeners {
            let Ok((stream, _)) = listener.accept() else { continue };
            has_any = true;
            // Who is not of this job is sent away.
            let Ok(connected) = welcome(stream, token, clock) else { continue };
            if let Some(place) = connected.rank.checked_sub(1).and_then(|index| came.get_mut(index)) {
                *place = Some(connected);
            }
        }
        if came.iter().all(Option::is_some) {
            return Ok(came.into_iter().flatten().collect());
        }
        if Instant::now() > deadline {
            return Err((1..).zip(&came).filter(|(_, came)| came.is_none()).map(|(rank, _)| rank).collect());
        }
        if !has_any {
            thread::sleep(PAUSE);
        }
    }
}

fn welcome(mut stream: TcpStream, token: &Token, clock: &dyn Fn() -> f64) -> io::Result<Connected> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut shown = [0_u8; 24];
    stream.read_exact(&mut shown)?;
    if shown[..8] != *MAGIC || shown[8..] != *token {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let rank = read_number(&mut stream)? as usize;
    let mut host = vec![0; read_number(&mut stream)?.min(256) as usize];
    stream.read_exact(&mut host)?;
    let mut best = (f64::INFINITY, 0.0);
    for _ in 0..PINGS {
        let sent = clock();
        stream.write_all(&[1])?;
        let theirs = f64::from_bits(read_number(&mut stream)?);
        let came = clock();
        if came - sent < best.0 {
            best = (came - sent, theirs - f64::midpoint(sent, came));
        }
    }
    stream.write_all(&[0])?;
    stream.set_read_timeout(None)?;
    Ok(Connected { rank, host: String::from_utf8_lossy(&host).into_owned(), stream, clock: best.1 })
}

/// Connects rank `rank`, on a host named `host`, to rank 0 at the first of `addresses` that answers.
///
/// # Errors
/// If none does until `deadline`: the last reason.
pub fn connect(
    addresses: &[SocketAddr],
    (rank, host): (usize, &str),
    token: &Token,
    (deadline, clock): (Instant, &dyn Fn() -> f64),
) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "rank 0 has no address");
    loop {
        for address in addresses {
            match greet(address, (rank, host), token, clock) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
            }
        }
        if Instant::now() > deadline {
            return Err(last);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn greet(
    address: &SocketAddr,
    (rank, host): (usize, &str),
    token: &Token,
    clock: &dyn Fn() -> f64,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Rank 0 may be at others.
    stream.set_read_timeout(Some(10 * PATIENCE))?;
    let host = &host.as_bytes()[..host.len().min(256)];
    let length = (host.len() as u64).to_le_bytes();
    stream.write_all(&[MAGIC, token.as_slice(), &(rank as u64).to_le_bytes(), &length, host].concat())?;
    loop {
        let mut more = [0_u8];
        stream.read_exact(&mut more)?;
        if more == [0] {
            break;
        }
        stream.write_all(&clock().to_bits().to_le_bytes())?;
    }
    stream.set_read_timeout(None)?;
    Ok(stream)
}

fn read_number(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
