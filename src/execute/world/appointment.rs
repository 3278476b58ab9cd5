//! How ranks find rank 0 without MPI: in torchrun's store, or at an address that each of them works out by itself.

use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use super::control::star::{self, Connected, LOOPBACK};
use super::error::WorldError;
use super::host_list;
use super::launcher::{Launched, ProcessManager};
use super::meeting::{Guest, Meeting, Reach, connection};
use super::store::Store;
use super::token::{self, Token};

/// The secret of a job, which its script sets for all of its processes.
const SECRET: &str = "MESHWRIGHT_TOKEN";

/// The host of rank 0 and a port there, as torchrun sets them and others may.
const MASTER: &str = "MASTER_ADDR";
const MASTER_PORT: &str = "MASTER_PORT";

/// The first port that Linux gives to nobody by itself (`net.ipv4.ip_local_port_range`), and how many jobs of Slurm are told
/// apart by ports from there on. JAX's `slurm_cluster.py` has the same.
const FIRST_PORT: u16 = 61_440;
const JOBS: u64 = 4096;

/// Ports after a job's own that rank 0 tries where that is taken: another step or job may have it.
const MORE_PORTS: u16 = 7;

/// Between looks for the address of a name.
const PAUSE: Duration = Duration::from_millis(200);

/// Where ranks find rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Appointment {
    /// Rank 0 says where it is in the store at `host` and `port`, under `key`.
    Store { host: String, port: u16, key: String, reach: Reach },
    /// Rank 0 is at the first free one of `ports` of `host`.
    Address { host: String, ports: RangeInclusive<u16>, token: Token, reach: Reach },
}

impl Appointment {
    /// The appointment that the launcher of `launched` makes; none if it makes none. `variable` reads the environment.
    ///
    /// # Errors
    /// If variables are missing, or are not what they should be.
    pub fn of(
        launched: Launched,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, WorldError> {
        let reach = reach(launched, variable);
        let master = master(variable)?;
        match (launched.launcher, master) {
            (ProcessManager::Torchrun, Some((host, port))) => {
                let run = variable("TORCHELASTIC_RUN_ID").unwrap_or_default();
                let turn = variable("TORCHELASTIC_RESTART_COUNT").unwrap_or_default();
                if variable("TORCHELASTIC_USE_AGENT_STORE").as_deref() == Some("True") {
                    // The store outlives ranks, which may begin anew.
                    let key = format!("meshwright/{run}/{turn}/rank-0");
                    return Ok(Some(Self::Store { host, port, key, reach }));
                }
                let token = token_of(variable, &["torchrun", &run, &turn]);
                Ok(Some(Self::Address { host, ports: port..=port, token, reach }))
            }
            (ProcessManager::Torchrun, None) => {
                let missing = if variable(MASTER).is_none() { MASTER } else { MASTER_PORT };
                Err(WorldError::NotSet(missing, "torchrun"))
            }
            (ProcessManager::Slurm, None) => of_slurm(launched, variable, reach).map(Some),
            (_, Some((host, port))) => {
                let token = token_of(variable, &["master", &port.to_string()]);
                Ok(Some(Self::Address { host, ports: port..=port, token, reach }))
            }
            (ProcessManager::OpenMpi | ProcessManager::Mpich, None) => Ok(None),
        }
    }

    /// The others, as `guest` has met them: at rank 0 all, at other ranks rank 0.
    ///
    /// # Errors
    /// Why they did not meet.
    pub fn keep(self, guest: &Guest<'_>) -> Result<Vec<Connected>, WorldError> {
        match self {
            Self::Store { host, port, key, reach } => {
                let unreachable =
                    |error: std::io::Error| connection(format!("torchrun's store at {host}:{port}: {error}"));
                let mut store = Store::connect((&host, port), guest.deadline).map_err(unreachable)?;
                if guest.rank > 0 {
                    let text = store.get(&key).map_err(unreachable)?;
                    return guest.join(serde_json::from_slice(&text).map_err(connection)?);
                }
                let (meeting, listeners) = guest.call(reach);
                store.set(&key, &serde_json::to_vec(&meeting).map_err(connection)?).map_err(unreachable)?;
                guest.receive(&listeners?, &meeting.token)
            }
            Self::Address { host, ports, token, reach } => {
                if guest.rank > 0 {
                    let addresses = addresses(&host, ports, reach, guest.deadline)?;
                    return guest.join(Meeting { addresses, token, host, key: None });
                }
                guest.receive(&listeners(ports, reach)?, &token)
            }
        }
    }
}

/// The address that `MASTER_ADDR` and `MASTER_PORT` say.
fn master(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<(String, u16)>, WorldError> {
    match (variable(MASTER), variable(MASTER_PORT)) {
        (Some(host), Some(port)) => match port.trim().parse() {
            Ok(number) if number > 0 => Ok(Some((host, number))),
            _ => Err(WorldError::Setting(MASTER_PORT, port, "a port is needed, 1 to 65535")),
        },
        _ => Ok(None),
    }
}

/// Slurm says which nodes a step has. The port is made of the job and the step.
fn of_slurm(
    launched: Launched,
    variable: &dyn Fn(&str) -> Option<String>,
    reach: Reach,
) -> Result<Appointment, WorldError> {
    const NODES: &str = "SLURM_STEP_NODELIST";
    const JOB: &str = "SLURM_JOB_ID";
    const NODE: &str = "SLURM_NODEID";
    let nodes = variable(NODES).ok_or(WorldError::NotSet(NODES, "srun"))?;
    let Some(host) = host_list::first(&nodes) else {
        return Err(WorldError::Setting(NODES, nodes, "a list of hosts is needed, such as n[1-4]"));
    };
    let job = variable(JOB).ok_or(WorldError::NotSet(JOB, "srun"))?;
    let Ok(number) = job.trim().parse::<u64>() else {
        return Err(WorldError::Setting(JOB, job, "a whole number is needed"));
    };
    let step = variable("SLURM_STEP_ID").unwrap_or_default();
    let number = number.wrapping_mul(u64::from(MORE_PORTS) + 1).wrapping_add(step.parse().unwrap_or(0));
    let port = FIRST_PORT + (number % (JOBS - u64::from(MORE_PORTS))) as u16;
    if let Some(node) = variable(NODE).filter(|node| launched.rank == 0 && node != "0") {
        return Err(WorldError::Setting(NODE, node, "rank 0 must be on the first node of the step"));
    }
    let token = token_of(variable, &["slurm", &job, &step]);
    Ok(Appointment::Address { host, ports: port..=port + MORE_PORTS, token, reach })
}

/// Whether all processes are on one host, as the launcher says; if it does not, they may be on several.
fn reach(launched: Launched, variable: &dyn Fn(&str) -> Option<String>) -> Reach {
    let says = |name: &str, count: usize| variable(name).and_then(|text| text.parse().ok()) == Some(count);
    let is_one_host = match launched.launcher {
        ProcessManager::OpenMpi => says("OMPI_COMM_WORLD_LOCAL_SIZE", launched.size),
        ProcessManager::Mpich => says("MPI_LOCALNRANKS", launched.size),
        ProcessManager::Slurm => says("SLURM_STEP_NUM_NODES", 1),
        ProcessManager::Torchrun => says("LOCAL_WORLD_SIZE", launched.size),
    };
    if is_one_host { Reach::OneHost } else { Reach::Hosts }
}

/// The job's secret if it has one; otherwise what tells this job from others.
fn token_of(variable: &dyn Fn(&str) -> Option<String>, job: &[&str]) -> Token {
    let secret = variable(SECRET).unwrap_or_default();
    token::of(&[&[secret.as_str()], job].concat())
}

/// Listens at the first of `ports` that is free at all addresses.
fn listeners(ports: RangeInclusive<u16>, reach: Reach) -> Result<Vec<TcpListener>, WorldError> {
    let (first, last) = (*ports.start(), *ports.end());
    let addresses = reach.addresses();
    let mut at = ports.filter_map(|port| star::listen(&addresses, port).ok());
    at.find(|listeners| listeners.len() == addresses.len()).ok_or_else(|| {
        let (named, are) = match first == last {
            true => (format!("port {first}"), "is"),
            false => (format!("ports {first} to {last}"), "are"),
        };
        connection(format!("{named} of this host {are} in use; {MASTER} and {MASTER_PORT} set another"))
    })
}

/// The addresses at which `host` may listen, as soon as its name is known.
fn addresses(
    host: &str,
    ports: RangeInclusive<u16>,
    reach: Reach,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, WorldError> {
    if reach == Reach::OneHost {
        return Ok(ports.map(|port| SocketAddr::new(LOOPBACK, port)).collect());
    }
    loop {
        match (host, 0).to_socket_addrs() {
            Ok(found) => {
                let found: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                let at = |port| found.iter().map(move |address| SocketAddr::new(*address, port));
                return Ok(ports.flat_map(at).collect());
            }
            Err(error) if Instant::now() > deadline => {
                return Err(connection(format!("host {host}: {error}")));
            }
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(launcher: ProcessManager, variables: &[(&str, &str)]) -> Result<Option<Appointment>, WorldError> {
        let launched = Launched { launcher, rank: 0, size: 4, local_rank: 0 };
        let found =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        Appointment::of(launched, &found)
    }

    const TORCHRUN: [(&str, &str); 4] = [
        ("MASTER_ADDR", "node-1"),
        ("MASTER_PORT", "29500"),
        ("TORCHELASTIC_RUN_ID", "some"),
        ("TORCHELASTIC_RESTART_COUNT", "2"),
    ];

    const SLURM: [(&str, &str); 4] = [
        ("SLURM_STEP_NODELIST", "n[07-08]"),
        ("SLURM_JOB_ID", "70000"),
        ("SLURM_STEP_ID", "1"),
        ("SLURM_NODEID", "0"),
    ];

    #[test]
    fn torchrun_has_a_store_or_an_address() {
        let with_store = [&TORCHRUN[..], &[("TORCHELASTIC_USE_AGENT_STORE", "True")]].concat();
        let key = "meshwright/some/2/rank-0".to_owned();
        let store = Appointment::Store { host: "node-1".to_owned(), port: 29500, key, reach: Reach::Hosts };
        assert_eq!(of(ProcessManager::Torchrun, &with_store).unwrap(), Some(store));
        let alone = [&TORCHRUN[..], &[("LOCAL_WORLD_SIZE", "4")]].concat();
        let Some(Appointment::Address { ports, reach, .. }) = of(ProcessManager::Torchrun, &alone).unwrap()
        else {
            panic!("no address");
        };
        assert_eq!((ports, reach), (29500..=29500, Reach::OneHost));
        let error = of(ProcessManager::Torchrun, &[]).unwrap_err();
        assert_eq!(error.to_string(), "MASTER_ADDR is not set, by which torchrun says where rank 0 is");
        let error = of(ProcessManager::Torchrun, &TORCHRUN[..1]).unwrap_err();
        assert!(error.to_string().starts_with("MASTER_PORT is not set"), "{error}");
    }

    #[test]
    fn a_port_in_use_is_left_to_others() {
        let taken = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = listeners(port..=port, Reach::OneHost).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port} of this host is in use; MASTER_ADDR")), "{error}");
        let next = listeners(port..=port + MORE_PORTS, Reach::OneHost).unwrap();
        assert!(next[0].local_addr().unwrap().port() > port);
    }

    #[test]
    fn steps_of_slurm_have_ports_and_tokens_of_their_own() {
        let address = |variables: &[(&str, &str)]| match of(ProcessManager::Slurm, variables).unwrap() {
            Some(Appointment::Address { host, ports, token, .. }) => (host, ports, token),
            other => panic!("{other:?}"),
        };
        let (host, ports, token) = address(&SLURM);
        assert_eq!(host, "n07");
        assert!(*ports.start() >= FIRST_PORT && ports.clone().count() == 8, "{ports:?}");
        let mut next = SLURM;
        next[2].1 = "2";
        let other = address(&next);
        assert!(other.1 != ports && other.2 != token);
        let with_secret = [&SLURM[..], &[(SECRET, "abc")]].concat();
        assert_ne!(address(&with_secret).2, token);
    }

    #[test]
    fn what_does_not_say_where_rank_0_is_is_named() {
        let with = |index: usize, value| {
            let mut variables = SLURM;
            variables[index].1 = value;
            of(ProcessManager::Slurm, &variables).unwrap_err().to_string()
        };
        assert_eq!(with(0, "n["), "SLURM_STEP_NODELIST is `n[`: a list of hosts is needed, such as n[1-4]");
        assert_eq!(with(1, "x"), "SLURM_JOB_ID is `x`: a whole number is needed");
        assert_eq!(with(3, "1"), "SLURM_NODEID is `1`: rank 0 must be on the first node of the step");
        let port = of(ProcessManager::OpenMpi, &[("MASTER_ADDR", "a"), ("MASTER_PORT", "0")]).unwrap_err();
        assert_eq!(port.to_string(), "MASTER_PORT is `0`: a port is needed, 1 to 65535");
        assert!(of(ProcessManager::OpenMpi, &[]).unwrap().is_none());
    }
}
