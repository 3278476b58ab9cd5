//! What the assembler says that a kernel takes.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub registers: u64,
    /// Bytes that the source declares; launches may add to them.
    pub shared: u64,
    /// Bytes of a thread that are kept in memory: spilled, or arrays whose index the compiler does not know.
    pub local: u64,
}

/// The kernels of a log that was asked for by `--ptxas-options=-v`.
///
/// # Errors
/// If the log says anything else, as a warning, or less.
pub fn usages(log: &str) -> Result<Vec<(String, Usage)>, String> {
    let mut found: Vec<(String, Option<u64>, Usage)> = Vec::new();
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("Compiling entry function '") {
            found.push((name.split('\'').next().unwrap_or_default().into(), None, Usage::default()));
        } else if line.contains(" bytes stack frame") {
            let (_, _, usage) = found.last_mut().ok_or_else(|| line.to_owned())?;
            let stack = before(line, " bytes stack frame").ok_or_else(|| line.to_owned())?;
            let stores = before(line, " bytes spill stores").ok_or_else(|| line.to_owned())?;
            let loads = before(line, " bytes spill loads").ok_or_else(|| line.to_owned())?;
            usage.local += stack.max(stores).max(loads);
        } else if line.contains(": Used ") {
            let (_, registers, usage) = found.last_mut().ok_or_else(|| line.to_owned())?;
            *registers = before(line, " registers");
            usage.shared = before(line, " bytes smem").unwrap_or(0);
        } else if !line.starts_with("ptxas info") && !line.trim().is_empty() {
            return Err(format!("the compiler says: {line}"));
        }
    }
    if found.is_empty() {
        return Err("the assembler tells of no kernel".into());
    }
    let told = |(name, registers, usage): (String, Option<u64>, Usage)| match registers {
        Some(registers) => Ok((name, Usage { registers, ..usage })),
        None => Err(format!("the assembler does not tell the registers of {name}")),
    };
    found.into_iter().map(told).collect()
}

/// The number that stands before `unit`.
fn before(line: &str, unit: &str) -> Option<u64> {
    line.split_once(unit)?.0.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem\n\
        ptxas info    : Compiling entry function 'b' for 'sm_90'\n\
        ptxas info    : Function properties for b\n\
        ptxas         .     848 bytes stack frame, 1232 bytes spill stores, 1528 bytes spill loads\n\
        ptxas info    : Used 32 registers, used 0 barriers, 848 bytes cumulative stack size\n\
        ptxas info    : Compile time = 26.864 ms\n\
        ptxas info    : Compiling entry function 'a' for 'sm_90'\n\
        ptxas info    : Function properties for a\n\
        ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
        ptxas info    : Used 14 registers, used 1 barriers, 256 bytes smem, 456 bytes cmem[0]\n";

    #[test]
    fn the_assemblers_words_are_read() {
        let b = Usage { registers: 32, shared: 0, local: 1528 };
        let a = Usage { registers: 14, shared: 256, local: 0 };
        assert_eq!(usages(LOG).unwrap(), [("b".into(), b), ("a".into(), a)]);
    }

    #[test]
    fn what_is_not_understood_is_a_fault() {
        usages("").unwrap_err();
        usages(&LOG.replace("Used 14 registers", "Used all registers")).unwrap_err();
        usages(&LOG.replace("1232 bytes spill stores", "spills")).unwrap_err();
        usages(&format!("{LOG}k.cu(3): warning #177-D: unused\n")).unwrap_err();
        usages(LOG.split_once("Function properties").unwrap().1).unwrap_err();
    }
}
