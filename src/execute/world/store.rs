//! torchrun's store of keys and values, as a client: ranks leave there what others need to know.
//!
//! Its wire is that of PyTorch's `TCPStore.cpp`: numbers are little-endian, and a string is its length as eight bytes, then
//! its bytes.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The number that a client begins with.
const MAGIC: u32 = 0x3C85_F7CE;

/// The longest value that is read.
const MOST: u64 = 1 << 20;

/// Between tries to reach the store.
const PAUSE: Duration = Duration::from_millis(100);

/// What a client asks for.
#[derive(Clone, Copy)]
enum Query {
    Validate = 0,
    Set = 1,
    Get = 3,
    Wait = 6,
}

/// A connection to a store.
pub struct Store {
    stream: TcpStream,
    deadline: Instant,
}

impl Store {
    /// Connects to the store at `address`, as soon as it answers.
    ///
    /// # Errors
    /// If it does not until `deadline`.
    pub fn connect((host, port): (&str, u16), deadline: Instant) -> io::Result<Self> {
        loop {
            match reach((host, port), deadline) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let mut store = Self { stream, deadline };
                    store.ask(Query::Validate, &[&MAGIC.to_le_bytes()])?;
                    return Ok(store);
                }
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Keeps `value` under `key`.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn set(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        self.ask(Query::Set, &[&text(key.as_bytes()), &text(value)])
    }

    /// The value under `key`, once there is one.
    ///
    /// # Errors
    /// If there is none until the deadline, or the connection fails.
    pub fn get(&mut self, key: &str) -> io::Result<Vec<u8>> {
        self.ask(Query::Wait, &[&1_u64.to_le_bytes(), &text(key.as_bytes())])?;
        let mut stopped = [0_u8];
        self.stream.read_exact(&mut stopped)?;
        if stopped != [0] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the store does not wait"));
        }
        self.ask(Query::Get, &[&text(key.as_bytes())])?;
        let mut length = [0_u8; 8];
        self.stream.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        if length > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what the store answers is no value"));
        }
        let mut value = vec![0; length as usize];
        self.stream.read_exact(&mut value)?;
        Ok(value)
    }

    fn ask(&mut self, query: Query, arguments: &[&[u8]]) -> io::Result<()> {
        let left = left(self.deadline)?;
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write_all(&[&[query as u8][..], &arguments.concat()].concat())
    }
}

/// A connection to the first address of `host` that takes one.
fn reach(host: (&str, u16), deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The time until `deadline`.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;

    /// Serves one client with exactly these bytes, each after those that it is to have sent.
    fn scripted(turns: Vec<(Vec<u8>, Vec<u8>)>) -> (SocketAddr, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            for (expected, answer) in turns {
                let mut came = vec![0; expected.len()];
                stream.read_exact(&mut came).unwrap();
                assert_eq!(came, expected);
                stream.write_all(&answer).unwrap();
            }
        };
        (address, thread::spawn(serve))
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    /// Bytes as torchrun's store of PyTorch 2.15 took and gave them.
    #[test]
    fn the_wire_is_that_of_the_store() {
        let key = [&8_u64.to_le_bytes()[..], b"some/key"].concat();
        let value = [&3_u64.to_le_bytes()[..], &[7, 0, 255]].concat();
        let (address, server) = scripted(vec![
            (vec![0, 0xCE, 0xF7, 0x85, 0x3C], Vec::new()),
            ([&[1][..], &key, &value].concat(), Vec::new()),
            ([&[6][..], &1_u64.to_le_bytes(), &key].concat(), vec![0]),
            ([&[3][..], &key].concat(), value),
        ]);
        let mut store = Store::connect(("127.0.0.1", address.port()), soon()).unwrap();
        store.set("some/key", &[7, 0, 255]).unwrap();
        assert_eq!(store.get("some/key").unwrap(), [7, 0, 255]);
        server.join().unwrap();
    }

    #[test]
    fn a_store_that_answers_nonsense_is_refused() {
        let key = [&3_u64.to_le_bytes()[..], b"key"].concat();
        let greeting = (vec![0, 0xCE, 0xF7, 0x85, 0x3C], Vec::new());
        let waits = [&[6][..], &1_u64.to_le_bytes(), &key].concat();
        let gets = [&[3][..], &key].concat();
        let cases = [
            vec![greeting.clone(), (waits.clone(), vec![1])],
            vec![greeting, (waits, vec![0]), (gets, u64::MAX.to_le_bytes().to_vec())],
        ];
        for turns in cases {
            let (address, server) = scripted(turns);
            let mut store = Store::connect(("127.0.0.1", address.port()), soon()).unwrap();
            assert_eq!(store.get("key").unwrap_err().kind(), io::ErrorKind::InvalidData);
            server.join().unwrap();
        }
    }

    #[test]
    fn a_store_that_is_not_there_or_silent_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let soon = Instant::now() + Duration::from_millis(300);
        let mut store = Store::connect(("127.0.0.1", port), soon).unwrap();
        assert!(store.get("key").is_err());
        drop(listener);
        assert!(Store::connect(("127.0.0.1", port), Instant::now()).is_err());
    }
}
