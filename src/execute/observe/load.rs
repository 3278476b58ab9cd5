//! How busy other programs keep the cores of this machine: the cores' time less that of this process.

use std::fs;
use std::time::Instant;

/// Parts of a second that the system counts time in for programs; it has been so on Linux since programs can read it.
const TICKS: f64 = 100.0;

/// A shorter look says little, as time is counted in hundredths of a second.
const LEAST_SECONDS: f64 = 0.1;

/// A look at the machine, from when it began.
pub struct Load {
    began: Instant,
    /// Seconds of all cores since the machine began that were not this process's.
    elsewhere: f64,
}

impl Load {
    /// Begins to look; none where the system does not tell.
    pub fn begin() -> Option<Self> {
        Some(Self { began: Instant::now(), elsewhere: elsewhere()? })
    }

    /// How many of the cores that this process may use others kept busy since, on average; none of a short time.
    pub fn cores(&self) -> Option<f64> {
        let passed = self.began.elapsed().as_secs_f64();
        let taken = (elsewhere()? - self.elsewhere).max(0.0);
        (passed >= LEAST_SECONDS).then_some(taken / passed)
    }
}

fn elsewhere() -> Option<f64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let status = read("/proc/self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let all = busy(&read("/proc/stat")?, &numbers(allowed)?)?;
    Some((all - own(&read("/proc/self/stat")?)?) / TICKS)
}

/// The numbers of a list such as `0-3,6`.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    let ranges: Option<Vec<_>> = list.split(',').map(range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

/// Ticks that those cores were not idle, as `/proc/stat` has it.
fn busy(stat: &str, cores: &[usize]) -> Option<f64> {
    let of_core = |core: &usize| {
        let name = format!("cpu{core} ");
        let fields = stat.lines().find_map(|line| line.strip_prefix(&name))?;
        let fields: Vec<f64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // User, nice, system, idle, waiting, interrupts, soft ones, stolen; what comes then is counted in the first two.
        let [user, nice, system, _, _, interrupts, soft, stolen] = *fields.first_chunk()?;
        Some(user + nice + system + interrupts + soft + stolen)
    };
    cores.iter().map(of_core).sum()
}

/// Ticks of this process, as `/proc/self/stat` has it: after its name, which may hold anything.
fn own(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some(times.next()?? + times.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_read_as_they_are_written() {
        assert_eq!(numbers("\t0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(numbers(" all"), None);
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 100 50 4 5 6 1 0\ncpu1 10 0 0 7 0 0 0 0 0 0\ncpu10 9 9 9 9 9 9 9 9\n";
        assert_eq!(busy(stat, &[0]), Some(21.0));
        assert_eq!(busy(stat, &[0, 1]), Some(31.0));
        assert_eq!(busy(stat, &[3]), None);
        assert_eq!(own("12 (a) b) S 1 1 1 0 -1 4 90 0 0 0 31 4 0 0 20"), Some(35.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_this_process_does_is_not_counted() {
        let load = Load::begin().unwrap();
        assert_eq!(load.cores(), None, "it has just begun");
        let before = elsewhere().unwrap();
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < 0.3 {
            std::hint::spin_loop();
        }
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        let after = elsewhere().unwrap();
        // Others may have had all the other cores, and not the time of this thread.
        assert!(after - before < 0.3 * cores, "{before} to {after}");
        assert!(load.cores().unwrap() <= cores);
    }
}
